-- +goose Up

-- What a webhook's connections trust and show other than by default, in PEM; both
-- texts are null without such a setting. The key is sealed.
ALTER TABLE webhooks ADD COLUMN tls_ca_certificate TEXT;
ALTER TABLE webhooks ADD COLUMN tls_client_certificate TEXT;
ALTER TABLE webhooks ADD COLUMN tls_client_key BYTEA;
