from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("parts", "0003_rows")]
    operations = [
        migrations.AddIndex("Step", models.Index(fields=["said"], name="steps_said")),
        migrations.RunSQL("insert into steps (step, said) values (4, 'four')"),
    ]
