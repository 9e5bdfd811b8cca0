create table steps (step integer not null);
insert into steps values (1);
