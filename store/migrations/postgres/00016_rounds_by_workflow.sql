-- +goose Up

-- What a workflow has left that was terminated is found by it.
CREATE INDEX delivery_rounds_by_workflow ON delivery_rounds (workflow_id);
