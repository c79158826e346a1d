-- A digest lands anywhere in its index: each record cost another page of it. What a record's content is known by is found
-- by its time instead, which is part of the content and differs from nearly every other's.
DROP INDEX records_by_content;
