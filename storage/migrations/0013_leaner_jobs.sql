-- Most jobs have no request_id, yet each had a row at a random place of a separate index, one more page per request.
-- Jobs with a request_id are found by jobs_by_request.
DROP INDEX jobs_of_project_by_request;
