package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type announcementRow struct {
	bun.BaseModel `bun:"table:announcements,alias:an"`

	ID             int64             `bun:"id,pk,autoincrement"`
	SubscriptionID string            `bun:"subscription_id"`
	Type           waypost.Happening `bun:"type"`
	At             stamp             `bun:"at"`
	Data           string            `bun:"data"`
}

// micros is a time that a statement has written as microseconds.
type micros struct{ time.Time }

// UnmarshalJSON reads it, null as the zero time.
func (m *micros) UnmarshalJSON(b []byte) error {
	var us *int64
	if err := json.Unmarshal(b, &us); err != nil || us == nil {
		return err
	}
	m.Time = time.UnixMicro(*us).UTC()
	return nil
}

// MarshalJSON writes it as all times are written.
func (m micros) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(m.Format(waypost.TimeFormat))
}

// Members of data that a statement has written, see object. The names are of the time when
// the message is made.
type (
	enrollmentEnded struct {
		EnrollmentID string                   `json:"enrollmentId"`
		JourneyID    string                   `json:"journeyId"`
		JourneyName  *string                  `json:"journeyName"`
		Version      int                      `json:"version"`
		LeadsID      int64                    `json:"leadsId"`
		LaunchID     *string                  `json:"launchId"`
		EntryKey     string                   `json:"entryKey"`
		Status       waypost.EnrollmentStatus `json:"status"`
		CreatedAt    micros                   `json:"createdAt"`
	}
	deliveryFailed struct {
		MessageID      string         `json:"messageId"`
		EnrollmentID   string         `json:"enrollmentId"`
		JourneyID      string         `json:"journeyId"`
		JourneyName    *string        `json:"journeyName"`
		JourneyVersion int            `json:"journeyVersion"`
		NodeID         string         `json:"nodeId"`
		WebhookID      string         `json:"webhookId"`
		WebhookName    *string        `json:"webhookName"`
		LeadsID        int64          `json:"leadsId"`
		LaunchID       *string        `json:"launchId"`
		Round          int            `json:"round"`
		Attempts       int            `json:"attempts"`
		HTTPStatus     *int           `json:"httpStatus"`
		ErrorClass     string         `json:"errorClass"`
		GaveUp         waypost.GaveUp `json:"gaveUp"`
	}
	launchEnded struct {
		LaunchID    string               `json:"launchId"`
		JourneyID   string               `json:"journeyId"`
		JourneyName *string              `json:"journeyName"`
		Version     int                  `json:"version"`
		RecurringID *string              `json:"recurringId"`
		OccursAt    micros               `json:"occursAt"`
		Status      waypost.LaunchStatus `json:"status"`
		Total       int                  `json:"total"`
		Enrolled    int                  `json:"enrolled"`
		Skipped     int                  `json:"skipped"`
		HeldOut     int                  `json:"heldOut"`
		CreatedAt   micros               `json:"createdAt"`
	}
)

// named is the data of an announcement that has names, which are looked up before.
type named interface{ name(names map[string]string) }

func (d *enrollmentEnded) name(names map[string]string) { d.JourneyName = nameOf(names, d.JourneyID) }
func (d *launchEnded) name(names map[string]string)     { d.JourneyName = nameOf(names, d.JourneyID) }
func (d *deliveryFailed) name(names map[string]string) {
	d.JourneyName, d.WebhookName = nameOf(names, d.JourneyID), nameOf(names, d.WebhookID)
}

// nameOf is nil for what is not there any more.
func nameOf(names map[string]string, id string) *string {
	name, there := names[id]
	if !there {
		return nil
	}
	return &name
}

// body is the data of an announcement as it is sent, without names.
func (r announcementRow) body() (any, error) {
	var data named
	switch r.Type {
	case waypost.EnrollmentEnded:
		data = &enrollmentEnded{}
	case waypost.DeliveryFailure:
		data = &deliveryFailed{}
	case waypost.LaunchEnded:
		data = &launchEnded{}
	default:
		return json.RawMessage(r.Data), nil
	}
	return data, fromJSON(r.Data, data)
}

// TellSubscriptions makes the messages of the oldest announcements, at most limit, each with
// its delivery, and returns them in batches, claimed, for the caller to start. All of it is
// one transaction in which the announcements go: a crash neither loses nor repeats one, and
// a batch that is not started is claimed again as others are. Concurrent calls share the
// work. more is false if there was less than limit.
func (s *subscriptions) TellSubscriptions(ctx context.Context, limit int) (batches []waypost.RedeliveryBatch, more bool, err error) {
	defer wrap(&err, "tell subscriptions")
	// Without a lock first, and without planning: an idle pump costs one read.
	if found, err := s.anyAnnouncement(ctx); err != nil || !found {
		return nil, false, err
	}
	err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) error {
		batches, more = nil, false // of a try before
		var rows []announcementRow
		q := tx.NewSelect().Model(&rows).Order("id").Limit(int64(max(1, limit)))
		if err := s.lockFor(q, forChange+skipLocked).Scan(ctx); err != nil || len(rows) == 0 {
			return err
		}
		more = len(rows) >= limit
		if batches, err = s.tell(ctx, tx, rows); err != nil {
			return err
		}
		ids := mapped(rows, func(r announcementRow) int64 { return r.ID })
		_, err := tx.NewDelete().Model((*announcementRow)(nil)).Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
	return batches, more, err
}

func (s *subscriptions) anyAnnouncement(ctx context.Context) (found bool, err error) {
	rows, err := s.query(ctx, nil, "SELECT id FROM announcements LIMIT 1")
	if err != nil {
		return false, err
	}
	err = scanAll(rows, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(new(int64))
	})
	return found, err
}

// tell makes messages of announcements, which are locked. Those of subscriptions that were
// deleted make none.
func (s *subscriptions) tell(ctx context.Context, tx bun.Tx, rows []announcementRow) (batches []waypost.RedeliveryBatch, err error) {
	var subscriptions []subscriptionRow
	// None of them is deleted meanwhile: its messages would not be canceled.
	q := tx.NewSelect().Model(&subscriptions).Order("id").
		Where("id IN (?)", bun.List(distinct(mapped(rows, func(r announcementRow) string { return r.SubscriptionID }))))
	if err := s.lockFor(q, forKey).Scan(ctx); err != nil || len(subscriptions) == 0 {
		return nil, err
	}
	byID := keyed(subscriptions, func(r subscriptionRow) string { return r.ID })
	rows = slices.DeleteFunc(slices.Clone(rows), func(r announcementRow) bool { _, there := byID[r.SubscriptionID]; return !there })
	bodies, err := s.bodies(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	now := s.time()
	var deliveries []deliveryRow
	var messages []message
	var rounds []roundRow
	groups := map[waypost.Scope]*waypost.RedeliveryBatch{}
	for i, r := range rows {
		sub := byID[r.SubscriptionID]
		b := groups[sub.Scope]
		if b == nil {
			b = &waypost.RedeliveryBatch{ID: waypost.NewID(waypost.PrefixRedeliveryBatch, now), Scope: sub.Scope}
			groups[sub.Scope] = b
		}
		key := waypost.Touchpoint{EnrollmentID: sub.ID, Visit: int(r.ID)}
		row := newDeliveryRow(key, sub.Scope, waypost.Delivery{MessageID: waypost.NewID(waypost.PrefixMessage, now), WebhookID: sub.WebhookID})
		deliveries = append(deliveries, row)
		messages = append(messages, message{key, row.MessageID, bodies[i]})
		rounds = append(rounds, roundRow{
			EnrollmentID: key.EnrollmentID, Visit: key.Visit, Round: row.Round, WorkflowID: b.ID, BeganAt: stamp{now}, Status: waypost.DeliveryPending,
		})
		b.Members = append(b.Members, waypost.RedeliveryMember{
			EnrollmentID: key.EnrollmentID, Visit: key.Visit, Round: row.Round, MessageID: row.MessageID, WebhookID: row.WebhookID,
		})
	}
	stored := make([]redeliveryBatchRow, 0, len(groups))
	for _, sc := range slices.SortedFunc(maps.Keys(groups), func(a, b waypost.Scope) int {
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Stage, b.Stage))
	}) {
		b := groups[sc]
		packed, err := toJSON(b.Members)
		if err != nil {
			return nil, err
		}
		stored = append(stored, redeliveryBatchRow{ID: b.ID, Scope: sc, Members: &packed, CreatedAt: stamp{now}, ClaimedAt: stamp{now}})
		batches = append(batches, *b)
	}
	if len(stored) == 0 {
		return nil, nil
	}
	if inserted, err := s.deliveries.insertDeliveries(ctx, tx, deliveries); err != nil || len(inserted) < len(deliveries) {
		return nil, fmt.Errorf("store deliveries, of which %d of %d are new: %w", len(inserted), len(deliveries), err)
	}
	if err := s.attempts.insertMessages(ctx, tx, messages); err != nil {
		return nil, err
	}
	if _, err := tx.NewInsert().Model(&rounds).Exec(ctx); err != nil {
		return nil, err
	}
	_, err = tx.NewInsert().Model(&stored).Exec(ctx)
	return batches, err
}

// bodies encodes announcements as they are sent.
func (s *subscriptions) bodies(ctx context.Context, tx bun.Tx, rows []announcementRow) ([][]byte, error) {
	data, err := decoded(rows, announcementRow.body)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, d := range data {
		switch d := d.(type) {
		case *enrollmentEnded:
			ids = append(ids, d.JourneyID)
		case *launchEnded:
			ids = append(ids, d.JourneyID)
		case *deliveryFailed:
			ids = append(ids, d.JourneyID, d.WebhookID)
		}
	}
	names, err := namesOf(ctx, tx, distinct(ids))
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, len(rows))
	for i, r := range rows {
		if d, ok := data[i].(named); ok {
			d.name(names)
		}
		bodies[i], err = waypost.EncodeJSON(waypost.SubscriptionMessage{Type: r.Type, Timestamp: r.At.UTC().Format(waypost.TimeFormat), Data: data[i]})
		if err != nil {
			return nil, fmt.Errorf("encode what %s is told: %w", r.SubscriptionID, err)
		}
	}
	return bodies, nil
}

// namesOf reads the names of journeys and webhooks.
func namesOf(ctx context.Context, tx bun.Tx, ids []string) (map[string]string, error) {
	names := map[string]string{}
	if len(ids) == 0 {
		return names, nil
	}
	var rows []struct{ ID, Name string }
	err := tx.NewRaw("SELECT id, name FROM journeys WHERE id IN (?) UNION ALL SELECT id, name FROM webhooks WHERE id IN (?)", bun.List(ids), bun.List(ids)).Scan(ctx, &rows)
	for _, row := range rows {
		names[row.ID] = row.Name
	}
	return names, err
}
