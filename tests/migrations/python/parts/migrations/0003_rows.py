from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("parts", "0002_column")]
    operations = [migrations.RunSQL("insert into steps (step, said) select 3, 'three' from pg_sleep(2)")]
