package store

import (
	"fmt"
	"strings"
	"time"

	"waypost"
	"waypost/segment"
)

// whereOf writes the questions of segments about leads (alias l) in SQL.
type whereOf struct {
	s   *segments
	sc  waypost.Scope
	now time.Time
	// many says that the statement looks at most leads, and is to find those with events
	// together. Otherwise it looks up those of one lead after another.
	many bool
}

var fieldColumns = map[string]string{
	"leadsId": "l.leads_id", "leadsGroup": "l.leads_group", "region": "l.region", "gender": "l.gender", "createdAt": "l.created_at", "updatedAt": "l.updated_at",
	"address": "l.address", "remark": "l.remark", "name": "l.name", "birthday": "l.birthday", "email": "l.email", "wechat": "l.wechat", "qq": "l.qq",
	"telephone": "l.telephone", "company": "l.company", "companyPhone": "l.company_phone", "companyEmail": "l.company_email",
	"companyWebsite": "l.company_website", "externalId": "l.external_id", "openId": "l.open_id", "mobilePhone": "l.mobile_phone", "customFields": "l.custom_fields",
	"consents": "l.consents", "test": "l.test",
	segment.EmailFolded: "l.email_folded",
}

// condition is a condition of a segment in SQL, about a lead (alias l). It can be NULL where a field of the
// lead is; a NOT around it is true then, as in memory.
func (w whereOf) condition(c segment.Cond) condition {
	switch c := c.(type) {
	case segment.And:
		return w.joined(c, " AND ", "TRUE")
	case segment.Or:
		return w.joined(c, " OR ", "FALSE")
	case segment.Not:
		inner := w.condition(c.Cond)
		switch c.Cond.(type) {
		case segment.AtLeast, segment.Entered, segment.Delivered: // PostgreSQL joins what is written like this
			return condition{"NOT " + inner.text, inner.args}
		}
		return condition{"(" + inner.text + ") IS NOT TRUE", inner.args}
	case segment.Field:
		return w.field(c)
	case segment.Custom:
		return w.s.customField(c)
	case segment.AtLeast:
		return w.atLeast(c)
	case segment.Entered:
		return condition{"EXISTS (SELECT 1 FROM journey_entries AS je WHERE je.journey_id = ? AND je.leads_id = l.leads_id)", []any{c.JourneyID}}
	case segment.Delivered:
		return condition{"EXISTS (SELECT 1 FROM deliveries AS d WHERE d.leads_id = l.leads_id AND d.journey_id = ? AND d.node_id = ? AND d.status = ?)",
			[]any{c.JourneyID, c.NodeID, waypost.DeliverySucceeded}}
	}
	panic("a question that nobody can ask") // Cond lists all of them
}

func (w whereOf) joined(list []segment.Cond, with, empty string) (out condition) {
	if len(list) == 0 {
		return condition{text: empty}
	}
	texts := make([]string, len(list))
	for i, c := range list {
		inner := w.condition(c)
		texts[i] = inner.text
		out.args = append(out.args, inner.args...)
	}
	out.text = "(" + strings.Join(texts, with) + ")"
	return out
}

func (w whereOf) field(c segment.Field) condition {
	column := fieldColumns[c.Name]
	switch value := c.Value.(type) {
	case segment.Moment:
		return w.moment(column, c.Op, value.Time(w.now))
	case float64:
		return condition{column + " " + string(c.Op) + " ?", []any{int64(value)}} // whole, and no more than 2^53
	case string:
		return w.s.compareText(column, c.Op, value)
	}
	null := map[segment.Op]string{segment.Unset: " IS NULL", segment.Set: " IS NOT NULL"}
	if c.Name == "mobilePhone" { // a list in JSON
		null = map[segment.Op]string{segment.Unset: " = '[]'", segment.Set: " <> '[]'"}
	}
	return condition{text: column + null[c.Op]}
}

// moment compares a column, which holds microseconds, with a time that may lie between two
// of them.
func (w whereOf) moment(column string, op segment.Op, at time.Time) condition {
	down := at.UnixMicro()
	between := !time.UnixMicro(down).Equal(at)
	switch op {
	case segment.Equal, segment.Unequal:
		if between {
			return condition{text: map[segment.Op]string{segment.Equal: "FALSE", segment.Unequal: "TRUE"}[op]}
		}
	case segment.Less, segment.GreaterOrEqual:
		if between {
			down++
		}
	}
	return condition{column + " " + string(op) + " ?", []any{down}}
}

func (w whereOf) atLeast(c segment.AtLeast) condition {
	if w.s.ages.Far(c.Window) {
		return w.atLeastByDay(c)
	}
	of := condition{"e.name = ?", []any{c.Event}}
	if c.Window > 0 {
		of.text, of.args = of.text+" AND e.occurred_at > ?", append(of.args, w.now.Add(-c.Window).UnixMicro())
	}
	if w.many && w.s.hasStatistics() {
		of.text, of.args = "e.org = ? AND e.stage = ? AND "+of.text, append([]any{w.sc.Org, w.sc.Stage}, of.args...)
		if c.N > 1 {
			of.text = "EXISTS (SELECT 1 FROM (SELECT e.leads_id FROM events AS e WHERE " + of.text + " GROUP BY e.leads_id HAVING count(*) >= ?) AS e WHERE e.leads_id = l.leads_id)"
			of.args = append(of.args, c.N)
			return of
		}
	}
	of.text = "EXISTS (SELECT 1 FROM events AS e WHERE e.leads_id = l.leads_id AND " + of.text
	if c.N > 1 {
		of.text, of.args = of.text+" LIMIT 1 OFFSET ?", append(of.args, c.N-1)
	}
	of.text += ")"
	return of
}

// atLeastByDay is atLeast by the counts of days. Of the day in which the window begins it counts what
// is known to lie in it: all events, or all but the first, which lies before it.
func (w whereOf) atLeastByDay(c segment.AtLeast) condition {
	of, n := condition{"ed.name = ?", []any{c.Event}}, "SUM(ed.n)"
	if c.Window > 0 {
		since := w.now.Add(-c.Window).UnixMicro()
		of.text, of.args = of.text+" AND ed.day >= ? AND ed.last_at > ?", append(of.args, eventDay(since), since)
		n = fmt.Sprintf("SUM(CASE WHEN ed.first_at > %d THEN ed.n ELSE ed.n - 1 END)", since)
	}
	if w.many && w.s.hasStatistics() {
		of.text, of.args = "ed.org = ? AND ed.stage = ? AND "+of.text, append([]any{w.sc.Org, w.sc.Stage}, of.args...)
		if c.N > 1 {
			of.text = "EXISTS (SELECT 1 FROM (SELECT ed.leads_id FROM event_days AS ed WHERE " + of.text + " GROUP BY ed.leads_id HAVING " + n + " >= ?) AS ed WHERE ed.leads_id = l.leads_id)"
			of.args = append(of.args, c.N)
			return of
		}
	}
	if c.N > 1 {
		of.text = "(SELECT COALESCE(" + n + ", 0) FROM event_days AS ed WHERE ed.leads_id = l.leads_id AND " + of.text + ") >= ?"
		of.args = append(of.args, c.N)
		return of
	}
	of.text = "EXISTS (SELECT 1 FROM event_days AS ed WHERE ed.leads_id = l.leads_id AND " + of.text + ")"
	return of
}
