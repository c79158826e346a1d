-- Most jobs have no request_id: each had a row of random place in an index of its own, another page with every request.
-- Those that have one are found by jobs_by_request.
DROP INDEX jobs_of_project_by_request;
