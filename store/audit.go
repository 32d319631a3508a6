package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type auditRow struct {
	bun.BaseModel `bun:"table:audit,alias:au"`

	ID string `bun:"id,pk"`
	waypost.Scope
	Application string  `bun:"application"`
	Actor       string  `bun:"actor"`
	Action      string  `bun:"action"`
	Target      string  `bun:"target"`
	Was         *string `bun:"was"`
	Became      *string `bun:"became"`
	RequestID   string  `bun:"request_id"`
	Address     string  `bun:"address"`
}

func (r auditRow) entry() waypost.AuditEntry {
	side := func(column *string) json.RawMessage {
		if column == nil {
			return nil
		}
		return json.RawMessage(*column)
	}
	return waypost.AuditEntry{
		ID:     r.ID,
		Author: waypost.Author{Scope: r.Scope, Application: r.Application, Actor: r.Actor, RequestID: r.RequestID, Address: r.Address},
		Action: r.Action, Target: r.Target, Before: side(r.Was), After: side(r.Became),
	}
}

// fields are members of one side of a change.
type fields map[string]any

// newAudit makes the entry of a change by an author, nil without one. before and after are
// what there was and is, nil for nothing; two that do not differ are no change, and give nil.
func (s *audit) newAudit(by *waypost.Author, action, target string, before, after any) (*auditRow, error) {
	if by == nil {
		return nil, nil
	}
	was, became, err := waypost.AuditChange(before, after)
	if err != nil || was == nil && became == nil && before != nil && after != nil {
		return nil, err
	}
	row := &auditRow{
		ID: waypost.NewID(waypost.PrefixAudit, s.time()), Scope: by.Scope, Application: by.Application, Actor: cleanText(by.Actor),
		Action: action, Target: cleanText(target), RequestID: cleanText(by.RequestID), Address: by.Address,
	}
	for _, side := range []struct {
		column **string
		json   json.RawMessage
	}{{&row.Was, was}, {&row.Became, became}} {
		if side.json != nil {
			*side.column = new(cleanText(string(side.json)))
		}
	}
	return row, nil
}

// audit writes the entry of a change into its transaction.
func (s *audit) add(ctx context.Context, tx bun.Tx, by *waypost.Author, action, target string, before, after any) error {
	row, err := s.newAudit(by, action, target, before, after)
	if err != nil {
		return err
	}
	return row.write(ctx, tx)
}

func (r *auditRow) write(ctx context.Context, tx bun.Tx) error {
	if r == nil {
		return nil
	}
	_, err := tx.NewInsert().Model(r).Exec(ctx)
	return err
}

// update writes the entry of a call of several transactions: each replaces what those before
// it have counted.
func (r *auditRow) update(ctx context.Context, tx bun.Tx, sofar fields) error {
	if r == nil {
		return nil
	}
	became, err := toJSON(sofar)
	if err != nil {
		return err
	}
	r.Became = &became
	_, err = tx.NewInsert().Model(r).On("CONFLICT (id) DO UPDATE").Set("became = EXCLUDED.became").Exec(ctx)
	return err
}

// auditLead is audit for a lead, of which it tells the names of the members that changed.
func (s *audit) auditLead(
	ctx context.Context, tx bun.Tx, by *waypost.Author, action string, id int64, before, after *waypost.LeadFields,
) error {
	names, err := waypost.LeadChange(before, after)
	if err != nil || len(names) == 0 {
		return err
	}
	was, became := any(nil), any(fields{"fields": names})
	if after == nil {
		was, became = became, was
	}
	return s.add(ctx, tx, by, action, strconv.FormatInt(id, 10), was, became)
}

// RecordAudit writes an entry for what changes nothing in the database: an export that
// begins, a test message, a token.
func (s *audit) RecordAudit(ctx context.Context, by waypost.Author, action, target string, after any) (err error) {
	defer wrap(&err, "record %s", action)
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		return s.add(ctx, tx, &by, action, target, nil, after)
	})
}

// ListAudit returns the entries of the scope that match the filter, newest first. Actors who are users
// are named, and filtered, by their e-mail address, or else by their id.
func (s *auditLog) ListAudit(
	ctx context.Context, sc waypost.Scope, f waypost.AuditFilter, page waypost.Page,
) (_ []waypost.AuditEntry, err error) {
	defer wrap(&err, "list the audit log")
	var rows []auditRow
	q := pageOf(s.r.NewSelect().Model(&rows), sc, "id", page)
	if f.Target != "" {
		q.Where("target = ?", cleanText(f.Target))
	}
	if f.Actor != "" {
		actors := []string{cleanText(f.Actor)}
		u, err := s.users.UserByEmail(ctx, sc.Org, f.Actor)
		if err == nil {
			actors = append(actors, u.ID)
		} else if waypost.CodeOf(err) != waypost.CodeNotFound {
			return nil, err
		}
		q.Where("actor IN (?) AND actor <> ''", bun.List(actors)) // as the index has it
	}
	if !f.From.IsZero() {
		q.Where("id >= ?", firstAudit(f.From))
	}
	if !f.To.IsZero() {
		q.Where("id < ?", firstAudit(f.To))
	}
	if err := q.Scan(ctx); err != nil {
		return nil, err
	}
	err = s.nameUsers(ctx, sc.Org, rows)
	return mapped(rows, auditRow.entry), err
}

// firstAudit is the lowest id of an entry that was not made before a time. Ids begin in 1970.
func firstAudit(at time.Time) string {
	up := at.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	if epoch := time.UnixMilli(0); up.Before(epoch) {
		up = epoch
	}
	return waypost.FirstID(waypost.PrefixAudit, up)
}

// auditPage lists entries that are over, oldest first.
func (s *audit) auditPage(p sweepPlace) *bun.SelectQuery {
	return s.r.NewSelect().TableExpr("audit").ColumnExpr("id, 0 AS number, TRUE AS is_over").
		Where("id > ? AND id < ?", p.ID, waypost.FirstID(waypost.PrefixAudit, p.before().Time)).Order("id").Limit(s.sweepPage())
}

func (s *audit) dropAudit(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	return affected(tx.NewDelete().Model((*auditRow)(nil)).Where("id IN (?)", bun.List(idsOf(rows))).Exec(ctx))
}

// auditWebhook is audit for a webhook, the secrets of which it shows as set or replaced.
// before or after can be nil.
func (s *audit) auditWebhook(ctx context.Context, tx bun.Tx, by *waypost.Author, action string, before, after *waypost.Webhook) error {
	if by == nil {
		return nil
	}
	b, err := sideOf(before)
	if err != nil {
		return err
	}
	a, err := sideOf(after)
	if err != nil {
		return err
	}
	for i := range b.secrets {
		was, is := waypost.AuditSecret(b.secrets[i], a.secrets[i])
		b.show(i, was)
		a.show(i, is)
	}
	return s.add(ctx, tx, by, action, cmp.Or(b.id, a.id), b.object(), a.object())
}

// webhookSide is a webhook before or after a change; the zero one is none.
type webhookSide struct {
	id      string
	members fields
	secrets [4]string // by the indexes below; "" for none
}

const (
	secretPassword = iota
	secretClientKey
	secretSigning
	secretQuery // what stands behind the ? of the URL, which often is a token
)

func sideOf(w *waypost.Webhook) (side webhookSide, err error) {
	if w == nil {
		return side, nil
	}
	encoded, err := toJSON(w) // without its secrets, but for what the URL has
	if err == nil {
		err = fromJSON(encoded, &side.members)
	}
	side.id, side.secrets[secretSigning] = w.ID, w.SigningSecret
	if w.BasicAuth != nil {
		side.secrets[secretPassword] = w.BasicAuth.Password
	}
	if w.TLS != nil {
		side.secrets[secretClientKey] = w.TLS.ClientKey
	}
	for i, why := range []error{w.Unreadable.Password, w.Unreadable.ClientKey, w.Unreadable.SigningSecret} {
		if why != nil {
			side.secrets[i] = "\x00unreadable" // differs from all others
		}
	}
	side.members["url"], side.secrets[secretQuery], _ = strings.Cut(w.URL, "?")
	return side, err
}

// show puts what stands for a secret where the secret belongs.
func (side webhookSide) show(secret int, shown any) {
	if shown == nil {
		return
	}
	inner := func(name string) map[string]any {
		if object, isObject := side.members[name].(map[string]any); isObject {
			return object
		}
		return map[string]any{}
	}
	switch secret {
	case secretPassword:
		inner("basicAuth")["password"] = shown
	case secretClientKey:
		inner("tls")["clientKey"] = shown
	case secretSigning:
		side.members["signingSecret"] = shown
	case secretQuery:
		side.members["url"] = fmt.Sprintf("%s?%s", side.members["url"], shown)
	}
}

func (side webhookSide) object() any {
	if side.members == nil {
		return nil
	}
	return side.members
}

// auditedArticle is an article as its audit entries compare it.
func auditedArticle(a waypost.Article) fields {
	return fields{
		"tenant_id": a.TenantID, "name": a.Name, "identifier": a.Identifier, "content": a.Content, "access_level": a.AccessLevel,
		"published": a.Published, "frontend_url": a.FrontendURL, "channels": a.Channels,
		"published_at": a.PublishedAt.UTC().Format(auditTime),
	}
}

// auditTime is how times stand in answers of the API.
const auditTime = "2006-01-02T15:04:05.000Z07:00"

// auditedLaunch is what the audit log tells of a new launch: of a filter, the names of its
// members; of a list, its length.
func auditedLaunch(l waypost.Launch) fields {
	members := fields{"journeyId": l.JourneyID, "version": l.Version}
	if l.Audience.Filter != nil {
		members["audience"] = fields{"filter": l.Audience.Filter.Names()}
	} else if l.Audience.Segment != "" {
		members["audience"] = fields{"segment": l.Audience.Segment}
	} else {
		members["audience"] = fields{"leadsIds": len(l.Audience.LeadsIDs)}
	}
	if l.StartAt != nil {
		members["startAt"] = l.StartAt.UTC().Format(auditTime)
	}
	if l.RatePerSecond > 0 {
		members["ratePerSecond"] = l.RatePerSecond
	}
	if l.Schedule != nil {
		members["schedule"] = fields{"cron": l.Schedule.Cron, "timezone": l.Schedule.Timezone}
	}
	if l.ControlGroup > 0 {
		members["controlGroup"] = l.ControlGroup
	}
	if t := l.Test; t != nil {
		test := fields{"after": waypost.Duration(t.After).String(), "undecided": t.Undecided, "nodeId": t.NodeID}
		if t.Leads > 0 {
			test["leads"] = t.Leads
		} else {
			test["share"] = t.Share
		}
		members["test"] = test
	}
	return members
}

func auditedSubscription(s waypost.Subscription) fields {
	members := fields{"name": s.Name, "webhookId": s.WebhookID, "on": s.On}
	if s.JourneyID != "" {
		members["journeyId"] = s.JourneyID
	}
	return members
}

// auditedFilter is a filter of deliveries as the audit log tells it: it names nobody.
func auditedFilter(f waypost.DeliveryFilter) fields {
	members := fields{"status": f.Statuses}
	for name, value := range map[string]any{
		"journeyId": f.JourneyID, "nodeId": f.NodeID, "webhookId": f.WebhookID, "enrollmentId": f.EnrollmentID, "launchId": f.LaunchID,
		"subscriptionId": f.SubscriptionID,
		"leadsId":        f.LeadsID, "errorClass": f.ErrorClass, "httpStatus": f.HTTPStatus,
	} {
		if value != "" && value != int64(0) && value != 0 {
			members[name] = value
		}
	}
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			members[name] = at.UTC().Format(auditTime)
		}
	}
	return members
}

func auditedSegment(g waypost.Segment) fields { return fields{"name": g.Name, "when": g.When} }
