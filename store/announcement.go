package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// What happened is announced in the transaction that records it: a row for each subscription
// that is told of it. TellSubscriptions makes messages of them. Where nobody subscribes to
// anything, no statement below reads more than that.

// anySubscribed is evaluated before anything else of a statement is.
const anySubscribed = "EXISTS (SELECT 1 FROM subscription_types)"

const insertAnnouncements = "INSERT INTO announcements (subscription_id, type, at, data) "

// subscribed joins who is told of a type about a row of an alias: of its scope and journey.
func subscribed(join string, h waypost.Happening, alias string) string {
	return " " + join + " subscription_types AS st ON st.org = " + alias + ".org AND st.stage = " + alias + ".stage AND st.type = '" + string(h) +
		"' AND st.journey_id IN ('', " + alias + ".journey_id)"
}

// object writes a JSON object of members "name expression" as a text. Times in it are
// microseconds, which told reads.
func object(members ...string) dialects {
	pairs := make([]string, len(members))
	for i, member := range members {
		name, expression, _ := strings.Cut(member, " ")
		pairs[i] = "'" + name + "', " + expression
	}
	list := "(" + strings.Join(pairs, ", ") + ") AS TEXT)"
	return dialects{"CAST(json_build_object" + list, "CAST(json_object" + list}
}

// endedObject is what is told of the end of an enrollment (alias e); status is how.
func endedObject(status string) dialects {
	return object("enrollmentId e.id", "journeyId e.journey_id", "version e.version", "leadsId e.leads_id", "launchId e.launch_id",
		"entryKey e.entry_key", "status "+status, "createdAt e.created_at")
}

// failedObject is what is told of a delivery (alias d) that has failed; of says where its
// last attempt stands.
func failedObject(of, attempts string) dialects {
	return object("messageId d.message_id", "enrollmentId d.enrollment_id", "journeyId d.journey_id", "journeyVersion d.journey_version",
		"nodeId d.node_id", "webhookId d.webhook_id", "leadsId d.leads_id", "launchId d.launch_id", "round d.round", "attempts "+attempts,
		"httpStatus NULLIF("+of+".http_status, 0)", "errorClass "+of+".error_class", "gaveUp "+of+".gave_up")
}

// announceEndsAndFailures is the part of recordEnds that announces what its rows (u) decide.
var announceEndsAndFailures = insertAnnouncements +
	"SELECT st.subscription_id, st.type, u.ended_at, " + endedObject("u.moved_to").postgres +
	" FROM u JOIN enrollments AS e ON e.id = u.enrollment_id" + subscribed("JOIN", waypost.EnrollmentEnded, "e") +
	" WHERE u.ended_at IS NOT NULL AND " + anySubscribed +
	" UNION ALL SELECT st.subscription_id, st.type, u.at + 1000 * u.duration_ms, " + failedObject("u", "u.attempt").postgres +
	" FROM u JOIN deliveries AS d ON d.enrollment_id = u.enrollment_id AND d.visit = u.visit" + subscribed("JOIN", waypost.DeliveryFailure, "d") +
	" WHERE u.status = 'failed' AND " + anySubscribed

var announceEnds = dialects{
	postgres: insertAnnouncements + "SELECT st.subscription_id, st.type, e.ended_at, " + endedObject("e.status").postgres +
		" FROM enrollments AS e" + subscribed("JOIN", waypost.EnrollmentEnded, "e") + " WHERE e.id = ANY ($1::text[]) AND " + anySubscribed + " ORDER BY e.id",
	// SQLite keeps the order of a CROSS JOIN.
	sqlite: insertAnnouncements + "SELECT st.subscription_id, st.type, e.ended_at, " + endedObject("e.status").sqlite +
		" FROM json_each(?) AS k CROSS JOIN enrollments AS e ON e.id = k.value" + subscribed("CROSS JOIN", waypost.EnrollmentEnded, "e") + " WHERE " + anySubscribed,
}

// announceEnds announces that enrollments have ended, after their rows say so.
func (s *Store) announceEnds(ctx context.Context, tx bun.Tx, ids []string) error {
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

var announceFailures = dialects{
	postgres: insertAnnouncements + "SELECT st.subscription_id, st.type, d.last_attempt_at + 1000 * d.duration_ms, " + failedObject("d", "d.attempts").postgres +
		ofTouchpoints.postgres + subscribed("JOIN", waypost.DeliveryFailure, "d") + " WHERE d.leads_id <> 0 AND " + anySubscribed + " ORDER BY d.message_id",
	sqlite: insertAnnouncements + "SELECT st.subscription_id, st.type, d.last_attempt_at + 1000 * d.duration_ms, " + failedObject("d", "d.attempts").sqlite +
		ofTouchpoints.sqlite + subscribed("CROSS JOIN", waypost.DeliveryFailure, "d") + " WHERE d.leads_id <> 0 AND " + anySubscribed,
}

// announceFailures announces that deliveries have failed, after their rows say so. Messages
// of subscriptions announce nothing: a subscription whose own webhook fails would be told of
// it without end.
func (s *Store) announceFailures(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint) error {
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

// launchObject is what is told of the end of a launch (alias la); status is how.
func launchObject(status string) dialects {
	return object("launchId la.id", "journeyId la.journey_id", "version la.version", "recurringId la.recurring_id", "occursAt la.occurs_at",
		"status "+status, "total la.total", "enrolled la.enrolled", "skipped la.skipped", "heldOut la.held_out", "createdAt la.created_at")
}

// announceLaunches announces that launches have ended, as status says and at the time of an
// expression, to whom subscribed before.
func (s *Store) announceLaunches(ctx context.Context, tx bun.Tx, ids []string, status waypost.LaunchStatus, at string, args ...any) error {
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

// happening is what happened to one thing, to be told.
type happening struct {
	waypost.Scope
	what      waypost.Happening
	journeyID string // "" of none
	// webhookID is the webhook that it happened to, if any: those that it would tell of
	// itself are not told, because they could not be reached.
	webhookID string
	at        time.Time
	data      any
}

// announce announces what happened.
func (s *Store) announce(ctx context.Context, tx bun.Tx, h happening) error {
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

// importEnded is what is told of an import that has ended.
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

func (s *Store) announceImport(ctx context.Context, tx bun.Tx, row *importRow) error {
	im := row.imported()
	return s.announce(ctx, tx, happening{Scope: row.Scope, what: waypost.ImportEnded, at: row.EndedAt.Time, data: importEnded{
		ImportID: im.ID, Mode: im.Mode, DryRun: im.DryRun, Status: im.Status, Message: nullable(im.Message), Total: im.Total, Processed: im.Processed,
		Created: im.Created, Updated: im.Updated, Failed: im.Failed, CreatedAt: im.CreatedAt.Format(waypost.TimeFormat),
	}})
}

// journeyPublished is what is told of a new version.
type journeyPublished struct {
	JourneyID   string `json:"journeyId"`
	JourneyName string `json:"journeyName"`
	Version     int    `json:"version"`
}

// webhookDisabled is what is told of a webhook that was disabled.
type webhookDisabled struct {
	WebhookID   string  `json:"webhookId"`
	WebhookName string  `json:"webhookName"`
	Reason      *string `json:"reason"` // why Waypost itself did so
}

func (s *Store) announceDisabled(ctx context.Context, tx bun.Tx, sc waypost.Scope, w waypost.Webhook) error {
	return s.announce(ctx, tx, happening{Scope: sc, what: waypost.WebhookDisabled, webhookID: w.ID, at: w.UpdatedAt, data: webhookDisabled{
		WebhookID: w.ID, WebhookName: w.Name, Reason: nullable(w.DisabledReason),
	}})
}

// webhookFailing is what is told of a webhook whose breaker has opened.
type webhookFailing struct {
	WebhookID   string `json:"webhookId"`
	WebhookName string `json:"webhookName"`
}

// AnnounceFailing announces that the breaker of a webhook has opened, once for each
// opening: it remembers the latest that it was told of. A webhook that is not there (any
// more) is passed over.
func (s *Store) AnnounceFailing(ctx context.Context, sc waypost.Scope, webhookID string, opened time.Time) (err error) {
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
