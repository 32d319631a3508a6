package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// announceEnds announces that enrollments have ended, after their rows say so.
func (s *announcements) announceEnds(ctx context.Context, tx bun.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := s.list(distinct(ids))
	if err != nil {
		return err
	}
	if err := s.exec(ctx, tx, s.in(announceEnds), list); err != nil {
		return fmt.Errorf("announce ends: %w", err)
	}
	return nil
}

// announceFailures announces that deliveries have failed, after their rows say so. Messages
// of subscriptions announce nothing: a subscription whose own webhook fails would be told of
// it without end.
func (s *announcements) announceFailures(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint) error {
	if len(keys) == 0 {
		return nil
	}
	args, err := s.touchpointArgs(keys)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, tx, s.in(announceFailures), args...); err != nil {
		return fmt.Errorf("announce failures: %w", err)
	}
	return nil
}

// announceLaunches announces that launches have ended, as status says and at the time of an
// expression, to whom subscribed before.
func (s *announcements) announceLaunches(
	ctx context.Context, tx bun.Tx, ids []string, status waypost.LaunchStatus, at string, args ...any,
) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.NewRaw(insertAnnouncements+"SELECT o.subscription_id, o.type, o.at, o.data FROM (SELECT la.id, st.subscription_id, st.type, st.since_at, "+at+" AS at, "+
		s.in(launchObject("'"+string(status)+"'"))+" AS data FROM launches AS la"+subscribed("JOIN", waypost.LaunchEnded, "la")+
		" WHERE la.id IN (?) AND "+anySubscribed+") AS o WHERE o.since_at <= o.at ORDER BY o.id", append(args, bun.List(ids))...).Exec(ctx)
	if err != nil {
		return fmt.Errorf("announce ends of launches: %w", err)
	}
	return nil
}

// happening is what announce announces: what happened to one thing.
type happening struct {
	waypost.Scope
	what      waypost.Happening
	journeyID string // "" of none
	// webhookID is the webhook that it happened to, if any. Subscriptions that use this
	// webhook get no message: it could not be reached.
	webhookID string
	at        time.Time
	data      any
}

// announce announces what happened.
func (s *announcements) announce(ctx context.Context, tx bun.Tx, h happening) error {
	data, err := toJSON(h.data)
	if err != nil {
		return err
	}
	_, err = tx.NewRaw(insertAnnouncements+"SELECT subscription_id, type, ?, ? FROM subscription_types AS st"+
		" WHERE org = ? AND stage = ? AND type = ? AND journey_id IN ('', ?) AND webhook_id <> ? ORDER BY subscription_id",
		stamp{h.at}, data, h.Org, h.Stage, h.what, h.journeyID, h.webhookID).Exec(ctx)
	if err != nil {
		return fmt.Errorf("announce %s: %w", h.what, err)
	}
	return nil
}

// importEnded is the data of an announcement that an import has ended.
type importEnded struct {
	ImportID  string               `json:"importId"`
	Mode      waypost.ImportMode   `json:"mode"`
	DryRun    bool                 `json:"dryRun"`
	Status    waypost.ImportStatus `json:"status"`
	Message   *string              `json:"message"` // why it failed
	Total     int                  `json:"total"`
	Processed int                  `json:"processed"`
	Created   int                  `json:"created"`
	Updated   int                  `json:"updated"`
	Failed    int                  `json:"failed"`
	CreatedAt string               `json:"createdAt"`
}

func (s *announcements) announceImport(ctx context.Context, tx bun.Tx, row *importRow) error {
	im := row.imported()
	return s.announce(ctx, tx, happening{Scope: row.Scope, what: waypost.ImportEnded, at: row.EndedAt.Time, data: importEnded{
		ImportID: im.ID, Mode: im.Mode, DryRun: im.DryRun, Status: im.Status, Message: nullable(im.Message), Total: im.Total, Processed: im.Processed,
		Created: im.Created, Updated: im.Updated, Failed: im.Failed, CreatedAt: im.CreatedAt.Format(waypost.TimeFormat),
	}})
}

// journeyPublished is the data of an announcement of a new version.
type journeyPublished struct {
	JourneyID   string `json:"journeyId"`
	JourneyName string `json:"journeyName"`
	Version     int    `json:"version"`
}

// webhookDisabled is the data of an announcement that a webhook was disabled.
type webhookDisabled struct {
	WebhookID   string  `json:"webhookId"`
	WebhookName string  `json:"webhookName"`
	Reason      *string `json:"reason"` // why Waypost itself did so
}

func (s *announcements) announceDisabled(ctx context.Context, tx bun.Tx, sc waypost.Scope, w waypost.Webhook) error {
	return s.announce(ctx, tx, happening{Scope: sc, what: waypost.WebhookDisabled, webhookID: w.ID, at: w.UpdatedAt, data: webhookDisabled{
		WebhookID: w.ID, WebhookName: w.Name, Reason: nullable(w.DisabledReason),
	}})
}

// webhookFailing is the data of an announcement that the breaker of a webhook has opened.
type webhookFailing struct {
	WebhookID   string `json:"webhookId"`
	WebhookName string `json:"webhookName"`
}

// AnnounceFailing announces that the breaker of a webhook has opened, once for each
// opening: the time of the latest one is stored. A webhook that does not exist (any more) changes
// nothing.
func (s *announcements) AnnounceFailing(ctx context.Context, sc waypost.Scope, webhookID string, opened time.Time) (err error) {
	defer wrap(&err, "announce that webhook %s is failing", clip(webhookID))
	opened = opened.Truncate(time.Microsecond)
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var names []string
		err := tx.NewRaw(`UPDATE webhooks SET failing_since = ? WHERE id = ? AND org = ? AND stage = ? AND COALESCE(failing_since < ?, TRUE) RETURNING name`,
			stamp{opened}, cleanText(webhookID), sc.Org, sc.Stage, stamp{opened}).Scan(ctx, &names)
		if err != nil || len(names) == 0 {
			return err
		}
		return s.announce(ctx, tx, happening{Scope: sc, what: waypost.WebhookFailing, webhookID: webhookID, at: opened, data: webhookFailing{
			WebhookID: webhookID, WebhookName: names[0],
		}})
	})
}
