package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// ListDeliveries returns the scope's deliveries that match the filter, newest
// first. From and To are compared, in milliseconds, with the time in the message's
// id.
func (s *deliveries) ListDeliveries(
	ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, page waypost.Page,
) (_ []waypost.Delivery, err error) {
	defer wrap(&err, "list deliveries")
	rows, err := pageOfDeliveries(ctx, s.r, sc, f, page.After, pageSize(page))
	return mapped(rows, s.delivery), err
}

func pageOfDeliveries(
	ctx context.Context, db bun.IDB, sc waypost.Scope, f waypost.DeliveryFilter, after string, n int64,
) (rows []deliveryRow, err error) {
	err = ofStatuses(db, &rows, f.Statuses, func(q *bun.SelectQuery, statuses []waypost.DeliveryStatus) {
		one := f
		one.Statuses = statuses
		filterDeliveries(q, one)
	}, func(q *bun.SelectQuery) *bun.SelectQuery {
		return pageOf(q, sc, "message_id", waypost.Page{After: after}).Limit(n)
	}).Scan(ctx)
	return rows, err
}

// ofStatuses selects a page of deliveries that are in one of the statuses, in any if there
// are none. narrow restricts a query to statuses, one at most; page puts it in order and
// bounds it. An index has the deliveries of one status in the order of their messages, and
// none has those of several: these come from a page of each.
func ofStatuses(
	db bun.IDB, rows *[]deliveryRow, statuses []waypost.DeliveryStatus, narrow func(*bun.SelectQuery, []waypost.DeliveryStatus),
	page func(*bun.SelectQuery) *bun.SelectQuery,
) *bun.SelectQuery {
	if len(statuses) <= 1 {
		q := db.NewSelect().Model(rows)
		narrow(q, statuses)
		return page(q)
	}
	pages := mapped(statuses, func(status waypost.DeliveryStatus) any {
		q := db.NewSelect().Model((*deliveryRow)(nil))
		narrow(q, []waypost.DeliveryStatus{status})
		return page(q)
	})
	const each = "SELECT * FROM (?) AS p"
	return page(db.NewSelect().Model(rows).ModelTableExpr("("+each+strings.Repeat(" UNION ALL "+each, len(pages)-1)+") AS d", pages...))
}

// filterDeliveries restricts q to the deliveries that match the filter.
func filterDeliveries(q *bun.SelectQuery, f waypost.DeliveryFilter) {
	for _, filter := range []struct{ column, value string }{
		{"journey_id", f.JourneyID}, {"webhook_id", f.WebhookID}, {"launch_id", f.LaunchID}, {"node_id", f.NodeID},
	} {
		if filter.value != "" {
			q.Where("? = ?", bun.Ident(filter.column), cleanText(filter.value))
		}
	}
	if f.EnrollmentID != "" {
		// As a subquery, so that the few rows are found by the enrollment's key and not
		// by walking through the scope in the list's order.
		q.Where("message_id IN (SELECT message_id FROM deliveries WHERE enrollment_id = ? AND leads_id <> 0)", cleanText(f.EnrollmentID))
	}
	if f.SubscriptionID != "" {
		q.Where("enrollment_id = ? AND leads_id = 0", cleanText(f.SubscriptionID)) // an index has the two
	}
	trouble := inTrouble(f.Statuses)
	switch {
	case trouble:
		q.Where("trouble IN (?)", bun.List(f.Statuses)) // the same as status, with an index of its own
	case len(f.Statuses) > 0:
		q.Where("status IN (?)", bun.List(f.Statuses))
	}
	if f.LeadsID != 0 {
		q.Where("leads_id = ?", f.LeadsID)
	}
	if f.ErrorClass != "" {
		// SQLite takes an index of some rows only where its condition stands.
		q.Where("error_class = ? AND error_class <> ''", cleanText(f.ErrorClass))
	}
	switch {
	case f.HTTPStatus == 0:
	case f.HTTPStatus != success:
		q.Where("http_trouble = ? AND http_trouble NOT IN (0, 200)", f.HTTPStatus) // the same as http_status, with an index of its own
	case trouble:
		q.Where("http_trouble = ?", success)
	default:
		q.Where("http_status = ?", success)
	}
	if !f.From.IsZero() {
		q.Where("message_id >= ?", firstMessageAt(f.From))
	}
	if !f.To.IsZero() {
		q.Where("message_id < ?", firstMessageAt(f.To))
	}
}

// inTrouble tells whether deliveries of these statuses are in deliveries_by_trouble.
func inTrouble(statuses []waypost.DeliveryStatus) bool {
	return len(statuses) > 0 && !slices.Contains(statuses, waypost.DeliveryPending) && !slices.Contains(statuses, waypost.DeliverySucceeded)
}

// success is the only HTTP status with which a delivery can succeed. No index has it, as
// none has the status succeeded.
const success = 200

// firstMessageAt is below every message id minted at or after t, and above all
// others.
func firstMessageAt(t time.Time) string {
	if up := t.Truncate(time.Millisecond); up.Before(t) {
		t = up.Add(time.Millisecond)
	}
	if t.Before(time.UnixMilli(0)) { // ids hold no time before it
		t = time.UnixMilli(0)
	}
	return waypost.FirstID(waypost.PrefixMessage, t)
}

// groupColumns are the columns of waypost.DeliveryGroupings.
var groupColumns = map[string]string{
	waypost.GroupErrorClass: "error_class", waypost.GroupHTTPStatus: "http_status", waypost.GroupWebhookID: "webhook_id", waypost.GroupNodeID: "node_id",
}

// SummarizeDeliveries counts the scope's deliveries that match the filter in groups that
// agree in all of by, which are some of waypost.DeliveryGroupings: at most
// waypost.MaxDeliveryGroups, those of the most deliveries first. Without a status in the
// filter these are failed and retrying ones. Deliveries in trouble are counted in their
// index, and only the samples are read; others can be so many that counting takes seconds.
func (s *deliveries) SummarizeDeliveries(
	ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, by []string,
) (groups []waypost.DeliveryGroup, err error) {
	defer wrap(&err, "summarize deliveries")
	if len(f.Statuses) == 0 {
		f.Statuses = []waypost.DeliveryStatus{waypost.DeliveryFailed, waypost.DeliveryRetrying}
	}
	columns := mapped(by, func(name string) string {
		if name == waypost.GroupHTTPStatus && inTrouble(f.Statuses) {
			return "http_trouble" // the same, and in the index
		}
		return groupColumns[name]
	})
	counted := s.r.NewSelect().Model((*deliveryRow)(nil)).ColumnExpr("count(*) AS n").ColumnExpr("max(message_id) AS sample").
		Where("org = ? AND stage = ?", sc.Org, sc.Stage).Group(columns...).OrderExpr("n DESC, sample DESC").Limit(waypost.MaxDeliveryGroups)
	filterDeliveries(counted, f)
	var rows []struct {
		deliveryRow `bun:",extend"`
		N           int `bun:"n,scanonly"`
	}
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.withoutPlan(ctx, tx, "seqscan"); err != nil {
			return err
		}
		return tx.NewSelect().With("g", counted).Model(&rows).ColumnExpr("?TableColumns").Column("g.n").Join("JOIN g ON g.sample = d.message_id").
			Where("d.org = ? AND d.stage = ?", sc.Org, sc.Stage).OrderExpr("g.n DESC, g.sample DESC").Scan(ctx)
	})
	for _, row := range rows {
		groups = append(groups, waypost.DeliveryGroup{Count: row.N, Sample: s.delivery(row.deliveryRow)})
	}
	return groups, err
}

// ExportDeliveries calls each for every delivery of the scope that matches, newest first.
// All of them are of one moment. It ends with the first error of each or of ctx, and has a
// connection until then, as ExportLeads does.
func (s *deliveries) ExportDeliveries(
	ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, each func(waypost.Delivery) error,
) (err error) {
	defer wrap(&err, "export deliveries")
	return s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.withoutPlan(ctx, tx, "seqscan"); err != nil {
			return err
		}
		for after := ""; ; {
			rows, err := pageOfDeliveries(ctx, tx, sc, f, after, exportPage)
			if err != nil {
				return err
			}
			for _, row := range rows {
				if err := each(s.delivery(row)); err != nil {
					return err
				}
			}
			if len(rows) < exportPage {
				return nil
			}
			after = rows[len(rows)-1].MessageID
		}
	})
}
