from django.db import migrations, models


class Migration(migrations.Migration):
    operations = [
        migrations.CreateModel("Step", [("step", models.IntegerField())], {"db_table": "steps"}),
        migrations.RunSQL("insert into steps (step) values (1)"),
    ]
