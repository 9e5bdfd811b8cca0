alter table steps add column said text;
insert into steps values (2, 'two');
