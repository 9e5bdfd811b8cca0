from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("parts", "0001_create")]
    operations = [
        migrations.AddField("Step", "said", models.TextField(null=True)),
        migrations.RunSQL("insert into steps (step, said) values (2, 'two')"),
    ]
