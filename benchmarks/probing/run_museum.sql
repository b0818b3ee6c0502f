create table rooms (id integer primary key, name text, floor integer);
create table artists (id integer primary key, name text, born integer, country text);
create table works (
    id integer primary key, title text, year integer, height_cm real,
    artist_id integer references artists (id), room_id integer references rooms (id)
);
create table loans (id integer primary key, work_id integer references works (id), borrower text, ends text);
insert into rooms values (1, 'North', 0), (2, 'South', 0), (3, 'Attic', 2), (4, 'Garden', 0), (5, 'Gallery', 1);
insert into artists values
    (11, 'Ines Duarte', 1841, 'Portugal'), (12, 'Henrik Solberg', 1863, 'Norway'), (13, 'Mara Vidal', 1850, 'Spain'),
    (14, 'Otto Lang', 1872, 'Austria'), (15, 'Elsa Lindqvist', 1880, 'Sweden'), (16, 'Joan Marsh', 1839, 'Ireland');
insert into works values
    (101, 'Sunrise', 1872, 61.5, 11, 1), (102, 'Harvest', 1888, 80.0, 13, 2), (103, 'The Pier', 1891, 45.0, 12, 1),
    (104, 'Two Boats', 1895, 52.5, 12, 1), (105, 'Winter Road', 1901, 90.0, 15, 5), (106, 'Self at Forty', 1881, 35.0, 11, 5),
    (107, 'Market Day', 1878, 120.0, 16, 2), (108, 'The Clockmaker', 1907, 70.0, 14, 3), (109, 'Oranges', 1884, 40.0, 13, 2),
    (110, 'Fjord', 1899, 110.0, 12, 5), (111, 'A Letter', 1875, 38.5, 16, 3), (112, 'Snow in May', 1910, 66.0, 15, 5),
    (113, 'The Bridge', 1902, 95.0, 14, 4), (114, 'Blue Door', 1886, 54.0, 13, 4), (115, 'Dusk', 1893, 48.0, 12, 3),
    (116, 'The Weavers', 1870, 130.0, 16, 2), (117, 'Night Train', 1912, 84.0, 14, 5), (118, 'Lemon Tree', 1889, 58.0, 13, 4);
insert into loans values
    (1, 110, 'Bergen', '2026-03-31'), (2, 102, 'Sevilla', '2026-09-15'), (3, 116, 'Cork', '2025-12-01'),
    (4, 112, 'Uppsala', '2027-01-10'), (5, 115, 'Bergen', '2026-06-30');
