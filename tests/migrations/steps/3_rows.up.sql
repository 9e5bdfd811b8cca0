insert into steps select 3, 'three' from pg_sleep(2);
