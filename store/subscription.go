package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

type subscriptionRow struct {
	bun.BaseModel `bun:"table:subscriptions,alias:su"`

	ID string `bun:"id,pk"`
	waypost.Scope
	Name       string `bun:"name"`
	WebhookID  string `bun:"webhook_id"`
	JourneyID  string `bun:"journey_id"` // "": of all
	Happenings string `bun:"happenings"`
	CreatedAt  stamp  `bun:"created_at"`
	UpdatedAt  stamp  `bun:"updated_at"`
}

func newSubscriptionRow(sc waypost.Scope, s waypost.Subscription) (row subscriptionRow, err error) {
	row = subscriptionRow{
		ID: s.ID, Scope: sc, Name: s.Name, WebhookID: s.WebhookID, JourneyID: s.JourneyID, CreatedAt: stamp{s.CreatedAt}, UpdatedAt: stamp{s.UpdatedAt},
	}
	row.Happenings, err = toJSON(s.On)
	return row, err
}

func (r subscriptionRow) subscription() (waypost.Subscription, error) {
	s := waypost.Subscription{
		ID: r.ID, Name: r.Name, WebhookID: r.WebhookID, JourneyID: r.JourneyID, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
	}
	return s, fromJSON(r.Happenings, &s.On)
}

// subscriptionTypeRow is a type of messages that a subscription gets.
type subscriptionTypeRow struct {
	bun.BaseModel `bun:"table:subscription_types,alias:st"`

	waypost.Scope
	Type           waypost.Happening `bun:"type,pk"`
	SubscriptionID string            `bun:"subscription_id,pk"`
	WebhookID      string            `bun:"webhook_id"`
	JourneyID      string            `bun:"journey_id"`
	Since          stamp             `bun:"since_at"`
}

// CreateSubscription stores a new subscription under an id minted here and returns it.
// NotFound if the scope lacks its webhook or its journey, Conflict if it has
// waypost.MaxSubscriptions already.
func (s *subscriptions) CreateSubscription(
	ctx context.Context, by waypost.Caller, sub waypost.Subscription,
) (_ waypost.Subscription, err error) {
	defer wrap(&err, "create subscription")
	sc, author := by.Within()
	now := s.time()
	sub.ID, sub.CreatedAt, sub.UpdatedAt = waypost.NewID(waypost.PrefixSubscription, now), now, now
	row, err := newSubscriptionRow(sc, sub)
	if err != nil {
		return sub, err
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.lockTable(ctx, tx, "subscriptions", againstWrites); err != nil {
			return err
		}
		n, err := tx.NewSelect().Model((*subscriptionRow)(nil)).Where("org = ? AND stage = ?", sc.Org, sc.Stage).Count(ctx)
		if err != nil {
			return err
		}
		if n >= waypost.MaxSubscriptions {
			return waypost.Errorf(waypost.CodeConflict, "", "the stage has %d subscriptions, which is the most that it can have", n)
		}
		if err := s.checkSubscribed(ctx, tx, sc, waypost.Subscription{}, sub); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if err := s.setTypes(ctx, tx, row, sub, nil); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "subscription.create", sub.ID, nil, auditedSubscription(sub)); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, sub)
	})
	return sub, err
}

// checkSubscribed is NotFound if the scope lacks the webhook of a changed subscription, or a journey that
// is new in it.
func (s *subscriptions) checkSubscribed(ctx context.Context, tx bun.Tx, sc waypost.Scope, before, after waypost.Subscription) error {
	missing, err := s.webhooks.missingWebhooks(ctx, tx, sc, []string{after.WebhookID})
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return waypost.Errorf(waypost.CodeNotFound, "webhookId", "there is no webhook %s", clip(after.WebhookID))
	}
	if after.JourneyID != "" && after.JourneyID != before.JourneyID {
		there, err := tx.NewSelect().Model((*journeyRow)(nil)).Where("id = ? AND org = ? AND stage = ?", after.JourneyID, sc.Org, sc.Stage).Exists(ctx)
		if err != nil {
			return err
		}
		if !there {
			return waypost.Errorf(waypost.CodeNotFound, "journeyId", "there is no journey %s", clip(after.JourneyID))
		}
	}
	return nil
}

// setTypes stores the types of messages that a subscription gets. A type that it had before for the same
// journey keeps its Since.
func (s *subscriptions) setTypes(
	ctx context.Context, tx bun.Tx, row subscriptionRow, sub waypost.Subscription, before []subscriptionTypeRow,
) error {
	rows := mapped(sub.On, func(h waypost.Happening) subscriptionTypeRow {
		r := subscriptionTypeRow{
			Scope: row.Scope, Type: h, SubscriptionID: row.ID, WebhookID: row.WebhookID, JourneyID: row.JourneyID, Since: row.UpdatedAt,
		}
		for _, b := range before {
			if b.Type == h && b.JourneyID == r.JourneyID {
				r.Since = b.Since
			}
		}
		return r
	})
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// Subscription returns a subscription; NotFound if the scope has none of this id.
func (s *subscriptions) Subscription(ctx context.Context, sc waypost.Scope, id string) (_ waypost.Subscription, err error) {
	defer wrap(&err, "load subscription %s", clip(id))
	var row subscriptionRow
	if err := scanByID(ctx, s.r.NewSelect().Model(&row), sc, "subscription", id); err != nil {
		return waypost.Subscription{}, err
	}
	return row.subscription()
}

// ListSubscriptions returns the subscriptions of the scope, newest first.
func (s *subscriptions) ListSubscriptions(ctx context.Context, sc waypost.Scope, page waypost.Page) (_ []waypost.Subscription, err error) {
	defer wrap(&err, "list subscriptions")
	var rows []subscriptionRow
	if err := pageOf(s.r.NewSelect().Model(&rows), sc, "id", page).Scan(ctx); err != nil {
		return nil, err
	}
	return decoded(rows, subscriptionRow.subscription)
}

func (s *subscriptions) lockSubscription(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, id, how string,
) (row subscriptionRow, err error) {
	err = scanByID(ctx, s.lockFor(tx.NewSelect().Model(&row), how), sc, "subscription", id)
	return row, err
}

// UpdateSubscription changes a subscription in one transaction and returns what it is now.
// Messages that are made by then stay with the webhook that they were made for. change may
// set everything but ID and times; its error ends the update and is returned. NotFound if
// the scope has none of this id, or lacks the webhook or the journey.
func (s *subscriptions) UpdateSubscription(
	ctx context.Context, by waypost.Caller, id string, change func(*waypost.Subscription) error,
) (sub waypost.Subscription, err error) {
	defer wrap(&err, "update subscription %s", clip(id))
	sc, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockSubscription(ctx, tx, sc, id, forChange)
		if err != nil {
			return err
		}
		if sub, err = row.subscription(); err != nil {
			return err
		}
		before := sub
		sub.On = slices.Clone(sub.On)
		if err := change(&sub); err != nil {
			return err
		}
		if err := s.checkSubscribed(ctx, tx, sc, before, sub); err != nil {
			return err
		}
		sub.ID, sub.CreatedAt, sub.UpdatedAt = before.ID, before.CreatedAt, s.time()
		if row, err = newSubscriptionRow(sc, sub); err != nil {
			return err
		}
		if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		var types []subscriptionTypeRow
		of := []any{sc.Org, sc.Stage, sub.ID}
		const ofOne = "org = ? AND stage = ? AND subscription_id = ?"
		if err := tx.NewSelect().Model(&types).Where(ofOne, of...).Scan(ctx); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model((*subscriptionTypeRow)(nil)).Where(ofOne, of...).Exec(ctx); err != nil {
			return err
		}
		if err := s.setTypes(ctx, tx, row, sub, types); err != nil {
			return err
		}
		return s.audit.add(ctx, tx, author, "subscription.update", sub.ID, auditedSubscription(before), auditedSubscription(sub))
	})
	return sub, err
}

// DeleteSubscription deletes a subscription unless check (unless nil), which sees it as it
// is, refuses. Announcements that are not messages yet are dropped; undecided messages are
// canceled as those of a deleted lead are. NotFound if the scope has none of this id.
func (s *subscriptions) DeleteSubscription(
	ctx context.Context, by waypost.Caller, id string, check func(waypost.Subscription) error,
) (err error) {
	defer wrap(&err, "delete subscription %s", clip(id))
	sc, author := by.Within()
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockSubscription(ctx, tx, sc, id, forDelete)
		if err != nil {
			return err
		}
		sub, err := row.subscription()
		if err != nil {
			return err
		}
		if check != nil {
			if err := check(sub); err != nil {
				return err
			}
		}
		if _, err := tx.NewDelete().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "subscription.delete", sub.ID, auditedSubscription(sub), nil); err != nil {
			return err
		}
		// Not those that are pending: their next attempt is under way, or soon due and held.
		return s.rounds.notifyRounds(ctx, tx, true, "d.org = ? AND d.stage = ? AND d.trouble IN ('retrying', 'deferred') AND d.enrollment_id = ? AND d.leads_id = 0",
			sc.Org, sc.Stage, row.ID)
	})
}

// subscribedWebhook is the Conflict of a webhook that cannot be deleted, if a subscription uses it.
func (s *webhooks) subscribedWebhook(ctx context.Context, tx bun.Tx, id string) error {
	var used []string
	err := tx.NewSelect().Model((*subscriptionRow)(nil)).Column("id").Where("webhook_id = ?", id).Order("id").Limit(1).Scan(ctx, &used)
	if err != nil {
		return fmt.Errorf("look for subscriptions: %w", err)
	}
	if len(used) > 0 {
		return waypost.Errorf(waypost.CodeConflict, "id", "subscription %s uses the webhook", used[0])
	}
	return nil
}
