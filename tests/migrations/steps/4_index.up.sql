create index steps_said on steps (said);
insert into steps values (4, 'four');
