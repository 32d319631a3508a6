package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type webhookRow struct {
	bun.BaseModel `bun:"table:webhooks,alias:w"`

	ID string `bun:"id,pk"`
	waypost.Scope
	Name           string  `bun:"name"`
	NameFolded     string  `bun:"name_folded"`
	URL            string  `bun:"url"`
	BasicUsername  *string `bun:"basic_username"`
	BasicPassword  []byte  `bun:"basic_password"`
	CACertificate  *string `bun:"tls_ca_certificate"`
	Certificate    *string `bun:"tls_client_certificate"`
	ClientKey      []byte  `bun:"tls_client_key"`
	Params         string  `bun:"params"`
	TimeoutMs      int     `bun:"timeout_ms"`
	Retry          string  `bun:"retry"`
	RateLimit      *string `bun:"rate_limit"`
	MaxConcurrency int     `bun:"max_concurrency"`
	Channel        string  `bun:"channel"`
	NeedsConsent   bool    `bun:"requires_consent"`
	Enabled        bool    `bun:"enabled"`
	DisabledReason string  `bun:"disabled_reason"`
	SigningSecret  []byte  `bun:"signing_secret"`
	SigningOverlap int64   `bun:"signing_overlap"`
	PreviousSecret []byte  `bun:"previous_signing_secret"`
	RotatedAt      stamp   `bun:"signing_rotated_at"`
	CreatedAt      stamp   `bun:"created_at"`
	UpdatedAt      stamp   `bun:"updated_at"`
}

func (r webhookRow) scope() waypost.Scope { return r.Scope }

func passwordPurpose(id string) string  { return "webhook/" + id + "/password" }
func signingPurpose(id string) string   { return "webhook/" + id + "/signing-secret" }
func clientKeyPurpose(id string) string { return "webhook/" + id + "/tls-client-key" }
func previousPurpose(id string) string  { return "webhook/" + id + "/previous-signing-secret" }

// newWebhookRow is the row of a webhook, its secrets sealed. BadRequest if a text holds what the database
// cannot store.
func (s *webhooks) newWebhookRow(sc waypost.Scope, w waypost.Webhook) (webhookRow, error) {
	row := webhookRow{
		ID: w.ID, Scope: sc, Name: w.Name, NameFolded: foldName(w.Name), URL: w.URL,
		TimeoutMs: w.TimeoutMs, MaxConcurrency: w.MaxConcurrency, Enabled: w.Enabled, DisabledReason: w.DisabledReason,
		Channel: w.Channel, NeedsConsent: w.RequiresConsent,
		SigningSecret:  s.seal(w.SigningSecret, signingPurpose(w.ID)),
		SigningOverlap: int64(w.SigningOverlap), RotatedAt: stamp{w.SigningRotatedAt},
		PreviousSecret: s.seal(w.PreviousSigningSecret, previousPurpose(w.ID)),
		CreatedAt:      stamp{w.CreatedAt}, UpdatedAt: stamp{w.UpdatedAt},
	}
	var p waypost.Problems
	checkText(&p, "name", w.Name)
	checkText(&p, "url", w.URL)
	checkText(&p, "channel", w.Channel)
	if w.BasicAuth != nil {
		checkText(&p, "basicAuth.username", w.BasicAuth.Username)
		row.BasicUsername = &w.BasicAuth.Username
		row.BasicPassword = s.seal(w.BasicAuth.Password, passwordPurpose(w.ID))
	}
	if w.TLS != nil {
		checkText(&p, "tls.caCertificate", w.TLS.CACertificate)
		checkText(&p, "tls.clientCertificate", w.TLS.ClientCertificate)
		row.CACertificate, row.Certificate = &w.TLS.CACertificate, &w.TLS.ClientCertificate
		row.ClientKey = s.seal(w.TLS.ClientKey, clientKeyPurpose(w.ID))
	}
	if err := p.Err("webhook"); err != nil {
		return row, err
	}
	if w.Params == nil {
		w.Params = map[string]any{}
	}
	var err, err2, err3 error
	row.Params, err = toJSON(w.Params)
	row.Retry, err2 = toJSON(w.Retry)
	if w.RateLimit != nil {
		row.RateLimit = new("")
		*row.RateLimit, err3 = toJSON(w.RateLimit)
	}
	return row, errors.Join(err, err2, err3)
}

func (s *webhooks) webhook(r webhookRow) (waypost.Webhook, error) {
	w := waypost.Webhook{
		ID: r.ID, Name: r.Name, URL: r.URL, TimeoutMs: r.TimeoutMs, MaxConcurrency: r.MaxConcurrency,
		Channel: r.Channel, RequiresConsent: r.NeedsConsent, Enabled: r.Enabled, DisabledReason: r.DisabledReason, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
		SigningOverlap: waypost.Duration(r.SigningOverlap), SigningRotatedAt: r.RotatedAt.Time,
	}
	err := errors.Join(fromJSON(r.Params, &w.Params), fromJSON(r.Retry, &w.Retry), fromJSON(text(r.RateLimit), &w.RateLimit))
	if err != nil {
		return w, fmt.Errorf("webhook %s: %w", r.ID, err)
	}
	// A secret that cannot be read is no error: with it the webhook could be neither shown
	// nor mended.
	if r.BasicUsername != nil {
		w.BasicAuth = &waypost.BasicAuth{Username: *r.BasicUsername}
		w.BasicAuth.Password, w.Unreadable.Password = s.unseal(r.BasicPassword, passwordPurpose(r.ID))
	}
	if r.CACertificate != nil && r.Certificate != nil {
		w.TLS = &waypost.TLS{CACertificate: *r.CACertificate, ClientCertificate: *r.Certificate}
		w.TLS.ClientKey, w.Unreadable.ClientKey = s.unseal(r.ClientKey, clientKeyPurpose(r.ID))
	}
	w.SigningSecret, w.Unreadable.SigningSecret = s.unseal(r.SigningSecret, signingPurpose(r.ID))
	w.PreviousSigningSecret, w.Unreadable.PreviousSigningSecret = s.unseal(r.PreviousSecret, previousPurpose(r.ID))
	return w, nil
}

// leaveUnreadable copies secrets that could not be decrypted from the row before an update, unless the
// update sets them. w.Unreadable then names only those.
func (r *webhookRow) leaveUnreadable(before webhookRow, w *waypost.Webhook) {
	leave := func(why *error, belongs bool, column *[]byte, sealed []byte) {
		if *why != nil && belongs && *column == nil {
			*column = sealed
		} else {
			*why = nil
		}
	}
	leave(&w.Unreadable.Password, w.BasicAuth != nil, &r.BasicPassword, before.BasicPassword)
	leave(&w.Unreadable.ClientKey, w.TLS != nil, &r.ClientKey, before.ClientKey)
	leave(&w.Unreadable.SigningSecret, true, &r.SigningSecret, before.SigningSecret)
	leave(&w.Unreadable.PreviousSigningSecret, true, &r.PreviousSecret, before.PreviousSecret)
}

// CreateWebhook stores a new webhook under an id minted here and returns it.
func (s *webhooks) CreateWebhook(ctx context.Context, by waypost.Caller, w waypost.Webhook) (created waypost.Webhook, err error) {
	defer wrap(&err, "create webhook")
	sc, author := by.Within()
	now := s.time()
	w.ID, w.CreatedAt, w.UpdatedAt = waypost.NewID(waypost.PrefixWebhook, now), now, now
	row, err := s.newWebhookRow(sc, w)
	if err != nil {
		return w, err
	}
	if created, err = s.webhook(row); err != nil {
		return w, err
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if err := s.audit.auditWebhook(ctx, tx, author, "webhook.create", nil, &created); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, created)
	})
	return created, err
}

// Webhook returns a webhook, its secrets in the clear, save those that are Unreadable;
// NotFound if the scope has none of this id.
func (s *webhooks) Webhook(ctx context.Context, sc waypost.Scope, id string) (w waypost.Webhook, err error) {
	defer wrap(&err, "load webhook %s", clip(id))
	row, err := s.webhookRow(ctx, sc, id)
	if err != nil {
		return w, err
	}
	return s.webhook(row)
}

func (s *webhooks) webhookRow(ctx context.Context, sc waypost.Scope, id string) (webhookRow, error) {
	row, err := rowByID[webhookRow](ctx, s.db, sc, "id", cleanText(id))
	return row, notFound(err, "id", "there is no webhook %s", clip(id))
}

func (s *webhooks) lockWebhook(ctx context.Context, tx bun.Tx, sc waypost.Scope, id string) (row webhookRow, err error) {
	err = scanByID(ctx, s.lockFor(tx.NewSelect().Model(&row), forDelete), sc, "webhook", id)
	return row, err
}

// ListWebhooks returns the webhooks of the scope that match the filter, newest first.
func (s *webhooks) ListWebhooks(
	ctx context.Context, sc waypost.Scope, f waypost.WebhookFilter, page waypost.Page,
) (_ []waypost.Webhook, err error) {
	defer wrap(&err, "list webhooks")
	p := namedPage{alias: "w", id: "w.id", prefix: f.Name, Page: page}
	rows, err := scanNamed[webhookRow](ctx, s.db, p, func() *bun.SelectQuery {
		q := s.r.NewSelect().Model((*webhookRow)(nil)).Where("w.org = ? AND w.stage = ?", sc.Org, sc.Stage)
		if f.Enabled != nil {
			q.Where("w.enabled = ?", *f.Enabled)
		}
		return q
	})
	if err != nil {
		return nil, err
	}
	return decoded(rows, s.webhook)
}

// UpdateWebhook changes a webhook in one transaction and returns what it is now.
// If it is enabled by that, its limits change or secrets that could not be read are set,
// the workflows of deliveries that are deferred because of them are told. change may set
// everything but ID and times; it must not call the Store, and its error ends the update
// and is returned. NotFound if the scope has none of this id.
func (s *webhooks) UpdateWebhook(
	ctx context.Context, by waypost.Caller, id string, change func(*waypost.Webhook) error,
) (w waypost.Webhook, err error) {
	defer wrap(&err, "update webhook %s", clip(id))
	sc, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockWebhook(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		if w, err = s.webhook(row); err != nil {
			return err
		}
		before := w
		if w.RateLimit != nil {
			limit := *w.RateLimit
			before.RateLimit = &limit
		}
		if w.TLS != nil {
			setting := *w.TLS
			before.TLS = &setting
		}
		if err := change(&w); err != nil {
			return err
		}
		w.ID, w.CreatedAt, w.UpdatedAt = row.ID, row.CreatedAt.Time, s.time()
		if !w.UpdatedAt.Before(w.PreviousSigningUntil()) {
			w.PreviousSigningSecret, w.SigningRotatedAt, w.Unreadable.PreviousSigningSecret = "", time.Time{}, nil // it signs no more
		}
		stored := row
		if row, err = s.newWebhookRow(sc, w); err != nil {
			return err
		}
		row.leaveUnreadable(stored, &w)
		if _, err = tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := s.audit.auditWebhook(ctx, tx, author, "webhook.update", &before, &w); err != nil {
			return err
		}
		if before.Enabled && !w.Enabled {
			if err := s.announcements.announceDisabled(ctx, tx, sc, w); err != nil {
				return err
			}
		}
		return s.release(ctx, tx, sc, id, released(before, w))
	})
	return w, err
}

// released lists the reasons of deferrals that may have ended with an update.
func released(before, after waypost.Webhook) (reasons []string) {
	if !after.Enabled {
		return nil
	}
	if !before.Enabled {
		return []string{waypost.DeferWebhookDisabled, waypost.DeferUnreadable, waypost.DeferRateLimit, waypost.DeferMaxConcurrency, waypost.DeferBreaker}
	}
	if before.Sendable(after.UpdatedAt) != nil && after.Sendable(after.UpdatedAt) == nil {
		reasons = append(reasons, waypost.DeferUnreadable)
	}
	if rate := before.RateLimit; (rate == nil) != (after.RateLimit == nil) || rate != nil && *rate != *after.RateLimit {
		reasons = append(reasons, waypost.DeferRateLimit)
	}
	if before.MaxConcurrency != after.MaxConcurrency {
		reasons = append(reasons, waypost.DeferMaxConcurrency)
	}
	if before.URL != after.URL || before.Circuit() != after.Circuit() {
		reasons = append(reasons, waypost.DeferBreaker)
	}
	return reasons
}

// ReleaseDeferred tells the workflows of a webhook's deliveries that are deferred for a
// reason that it has ended, in the order of the deferrals.
func (s *webhooks) ReleaseDeferred(ctx context.Context, sc waypost.Scope, webhookID, reason string) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		return s.release(ctx, tx, sc, webhookID, []string{reason})
	})
}

// release tells the workflows of a webhook's deliveries that are deferred for one of the
// reasons, in the order of the deferrals. A delivery that is being deferred at the same
// time can be missed: its workflow looks again after some seconds.
func (s *webhooks) release(ctx context.Context, tx bun.Tx, sc waypost.Scope, webhook string, reasons []string) error {
	if len(reasons) == 0 {
		return nil
	}
	_, err := tx.NewRaw(`INSERT INTO notices (workflow_id, enrollment_id, event_id, created_at, claimed_until, bulk)
		SELECT w.workflow_id, '', '', ?, 0, TRUE FROM (
			SELECT COALESCE(dr.workflow_id, e.cohort_id) AS workflow_id, d.deferred_since
			FROM deliveries AS d LEFT JOIN enrollments AS e ON e.id = d.enrollment_id
			LEFT JOIN delivery_rounds AS dr ON dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit AND dr.round = d.round
			WHERE d.org = ? AND d.stage = ? AND d.trouble = ? AND d.webhook_id = ? AND d.deferred_reason IN (?)
		) AS w WHERE w.workflow_id IS NOT NULL GROUP BY w.workflow_id ORDER BY min(w.deferred_since), w.workflow_id`,
		stamp{s.time()}, sc.Org, sc.Stage, waypost.DeliveryDeferred, webhook, bun.List(reasons)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("release deliveries: %w", err)
	}
	return nil
}

// DisableWebhook switches a webhook off because of reason ("410"), if it is still as
// w is: what a receiver has said of another URL, or before somebody has enabled it
// again, does not count. NotFound if the scope has none of this id.
func (s *webhooks) DisableWebhook(ctx context.Context, sc waypost.Scope, w waypost.Webhook, reason string) (err error) {
	defer wrap(&err, "disable webhook %s", clip(w.ID))
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockWebhook(ctx, tx, sc, w.ID)
		if err != nil || !row.Enabled || row.URL != w.URL || !row.UpdatedAt.Equal(w.UpdatedAt) {
			return err
		}
		row.Enabled, row.DisabledReason, row.UpdatedAt = false, reason, stamp{s.time()}
		if _, err = tx.NewUpdate().Model(&row).Column("enabled", "disabled_reason", "updated_at").WherePK().Exec(ctx); err != nil {
			return err
		}
		return s.announcements.announceDisabled(ctx, tx, sc, waypost.Webhook{ID: row.ID, Name: row.Name, DisabledReason: reason, UpdatedAt: row.UpdatedAt.Time})
	})
}

// DeleteWebhook deletes a webhook unless check (unless nil), which sees it as it is,
// refuses. Conflict if a published version names it or a subscription uses it, NotFound if the scope has none of
// this id.
func (s *webhooks) DeleteWebhook(ctx context.Context, by waypost.Caller, id string, check func(waypost.Webhook) error) (err error) {
	defer wrap(&err, "delete webhook %s", clip(id))
	sc, author := by.Within()
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockWebhook(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		w, err := s.webhook(row)
		if err != nil {
			return err
		}
		if check != nil {
			if err := check(w); err != nil {
				return err
			}
		}
		var named []journeyWebhookRow
		err = tx.NewSelect().Model(&named).Where("webhook_id = ?", id).Order("journey_id", "version").Limit(1).Scan(ctx)
		if err != nil {
			return err
		}
		if len(named) > 0 {
			return waypost.Errorf(waypost.CodeConflict, "id", "version %d of journey %s names the webhook", named[0].Version, named[0].JourneyID)
		}
		if err := s.subscribedWebhook(ctx, tx, id); err != nil {
			return err
		}
		if _, err = tx.NewDelete().Model((*webhookRow)(nil)).Where("id = ?", id).Exec(ctx); err != nil {
			return err
		}
		return s.audit.auditWebhook(ctx, tx, author, "webhook.delete", &w, nil)
	})
}

// MissingWebhooks returns those of ids that the scope has no webhook for, sorted
// and without duplicates.
func (s *webhooks) MissingWebhooks(ctx context.Context, sc waypost.Scope, ids []string) ([]string, error) {
	return s.missingWebhooks(ctx, s.r, sc, ids)
}

// WebhookNamesakes returns what another stage has of the names of webhooks, by their ids.
func (s *webhooks) WebhookNamesakes(
	ctx context.Context, sc waypost.Scope, stage waypost.Stage, ids []string,
) (_ map[string]waypost.Namesake, err error) {
	defer wrap(&err, "look for webhooks of other stages")
	return s.namesakes(ctx, "webhooks", "", sc, stage, ids)
}

// missingWebhooks locks, in a transaction, the webhooks that are there: none of them is
// deleted before it ends.
func (s *webhooks) missingWebhooks(ctx context.Context, db bun.IDB, sc waypost.Scope, ids []string) (_ []string, err error) {
	defer wrap(&err, "look for webhooks")
	q := db.NewSelect().Model((*webhookRow)(nil))
	if _, inTx := db.(bun.Tx); inTx {
		s.lockFor(q, forKey)
	}
	return missing(ctx, q, sc, ids)
}
