package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// ListLeads returns the scope's leads that match, in the order of q.Sort: at most
// q.Page.Limit (and MaxPageSize+1) that follow q.Page.After. A malformed After is a
// BadRequest of "cursor", an unknown order one of "sort".
func (s *leads) ListLeads(ctx context.Context, sc waypost.Scope, q waypost.LeadQuery) (_ []waypost.Lead, err error) {
	defer wrap(&err, "list leads")
	walk, err := newLeadWalk(sc, q)
	if err != nil {
		return nil, err
	}
	walk.n = int(pageSize(q.Page))
	var rows []leadRow
	err = s.leadSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		rows, err = s.leadRows(ctx, tx, walk)
		return err
	})
	if err != nil {
		return nil, err
	}
	return decoded(rows, leadRow.lead)
}

const (
	// exportPage is how many leads or deliveries an export holds in memory.
	exportPage = 1000
	// maxFieldNames bounds the custom fields and consents that an export names in its first row.
	maxFieldNames = 2000
)

// ExportLeads calls each for every lead of the scope that matches, in the order of
// q.Sort; q.Page does not count. All of them are of one moment. Before the first
// one, begin (unless nil) gets the names of exportNames. It
// ends with the first error of begin, of each or of ctx. It has a connection until then: its caller
// bounds how many run. With begin, leads with more than 2,000 different ones are UnprocessableEntity.
func (s *leads) ExportLeads(
	ctx context.Context, sc waypost.Scope, q waypost.LeadQuery, begin func(columns []string) error, each func(waypost.Lead) error,
) (err error) {
	defer wrap(&err, "export leads")
	walk, err := newLeadWalk(sc, waypost.LeadQuery{Filter: q.Filter, Sort: q.Sort})
	if err != nil {
		return err
	}
	walk.n = exportPage
	return s.leadSnapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		if begin != nil {
			names, err := s.exportNames(ctx, tx, walk)
			if err != nil {
				return err
			}
			if err := begin(names); err != nil {
				return err
			}
		}
		for {
			rows, err := s.leadRows(ctx, tx, walk)
			if err != nil {
				return err
			}
			for _, row := range rows {
				lead, err := row.lead()
				if err != nil {
					return err
				}
				if err := each(lead); err != nil {
					return err
				}
			}
			if len(rows) < walk.n {
				return nil
			}
			walk.after = walk.place(rows[len(rows)-1])
		}
	})
}

// exportNames returns the members of a walk's leads that each lead names: customFields.NAME
// and consents.CHANNEL. The databases' own JSON functions refuse texts that JSON allows.
func (s *leads) exportNames(ctx context.Context, tx bun.Tx, w leadWalk) ([]string, error) {
	w.order = leadOrder{} // as the leads lie
	rows, err := s.matching(tx, w, leadsByScope, w.f).Column("custom_fields", "consents").
		Where("(l.custom_fields IS NOT NULL OR l.consents IS NOT NULL)").OrderExpr("l.leads_id").Rows(ctx)
	if err != nil {
		return nil, err
	}
	custom, consents := map[string]struct{}{}, map[string]struct{}{}
	var columns [2]sql.RawBytes
	var members map[string]json.RawMessage
	err = scanAll(rows, func(rows *sql.Rows) error {
		if err := rows.Scan(&columns[0], &columns[1]); err != nil {
			return err
		}
		for i, names := range []map[string]struct{}{custom, consents} {
			if columns[i] == nil {
				continue
			}
			clear(members)
			if err := json.Unmarshal(columns[i], &members); err != nil {
				return fmt.Errorf("decode custom fields or consents: %w", err)
			}
			for name := range members {
				names[name] = struct{}{}
			}
		}
		if len(custom)+len(consents) > maxFieldNames {
			return waypost.Errorf(waypost.CodeUnprocessableEntity, "format", "these leads have more than %d different custom fields and consents, too many for columns; export them as ndjson", maxFieldNames)
		}
		return nil
	})
	var names []string
	for _, name := range slices.Sorted(maps.Keys(custom)) {
		names = append(names, "customFields."+name)
	}
	for _, channel := range slices.Sorted(maps.Keys(consents)) {
		names = append(names, "consents."+channel)
	}
	return names, err
}

// leadSnapshot runs fn in a transaction that only reads, all of it of one moment.
func (s *leads) leadSnapshot(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	return s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		// A walk has an index that gives its order; with another one, a million leads would
		// be sorted.
		if err := s.withoutPlan(ctx, tx, "sort"); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// leadOrder is an order of leads.
type leadOrder struct {
	column string // the time that counts before leads_id; "": leads_id alone
	down   bool
}

var leadOrders = map[waypost.LeadSort]leadOrder{
	"":                        {},
	waypost.SortLeadsID:       {},
	waypost.SortLeadsIDDown:   {down: true},
	waypost.SortCreatedAt:     {column: "created_at"},
	waypost.SortCreatedAtDown: {column: "created_at", down: true},
	waypost.SortUpdatedAt:     {column: "updated_at"},
	waypost.SortUpdatedAtDown: {column: "updated_at", down: true},
}

// leadWalk asks for the first n leads of a scope that match, in an order.
type leadWalk struct {
	sc    waypost.Scope
	f     waypost.LeadFilter
	order leadOrder
	after []int64 // the place of the lead before the first, nil: none
	upTo  *int64  // the highest leads_id that counts, nil: any
	n     int
	few   bool // region and group are given, and few leads are of both
}

func newLeadWalk(sc waypost.Scope, q waypost.LeadQuery) (leadWalk, error) {
	order, known := leadOrders[q.Sort]
	if !known {
		return leadWalk{}, waypost.Errorf(waypost.CodeBadRequest, "sort", "there is no such order")
	}
	w := leadWalk{sc: sc, f: q.Filter, order: order}
	if q.Page.After == "" {
		return w, nil
	}
	parts := strings.Split(q.Page.After, ",")
	for _, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return leadWalk{}, errCursor
		}
		w.after = append(w.after, n)
	}
	if len(parts) != len(w.order.columns()) {
		return leadWalk{}, errCursor
	}
	return w, nil
}

var errCursor = waypost.Errorf(waypost.CodeBadRequest, "cursor", "is no place in this list")

func (o leadOrder) columns() []string {
	if o.column == "" {
		return []string{"leads_id"}
	}
	return []string{o.column, "leads_id"}
}

// step is what leads_id changes by from one lead to the next.
func (o leadOrder) step() int64 {
	if o.down {
		return -1
	}
	return 1
}

// place is where a lead stands in the walk's order.
func (w leadWalk) place(row leadRow) []int64 {
	switch w.order.column {
	case "created_at":
		return []int64{row.CreatedAt.UnixMicro(), row.LeadsID}
	case "updated_at":
		return []int64{row.UpdatedAt.UnixMicro(), row.LeadsID}
	}
	return []int64{row.LeadsID}
}

const (
	leadsByScope = "leads_by_scope"
	leadsByTest  = "leads_by_test" // test leads alone
)

// index names the index whose order is the walk's, and divides the filter into what
// that index looks up and the rest.
func (w leadWalk) index() (name string, covered, rest waypost.LeadFilter) {
	rest, name = w.f, "leads_by"
	switch {
	case w.f.Region != nil && w.f.LeadsGroup != nil && w.order.column == "":
		name += "_region_group"
		covered.Region, covered.LeadsGroup = w.f.Region, w.f.LeadsGroup
		rest.Region, rest.LeadsGroup = nil, nil
	case w.f.Region != nil:
		name += "_region"
		covered.Region, rest.Region = w.f.Region, nil
	case w.f.LeadsGroup != nil:
		name += "_group"
		covered.LeadsGroup, rest.LeadsGroup = w.f.LeadsGroup, nil
	case w.f.Birthday != "" && w.order.column == "":
		name += "_birthday"
		covered.Birthday, rest.Birthday = w.f.Birthday, ""
	case w.f.TestOnly() && w.order.column == "":
		name += "_test"
		covered.Test, rest.Test = w.f.Test, nil
	}
	switch w.order.column {
	case "created_at":
		name += "_created"
		covered.CreatedFrom, covered.CreatedTo = w.f.CreatedFrom, w.f.CreatedTo
		rest.CreatedFrom, rest.CreatedTo = time.Time{}, time.Time{}
	case "updated_at":
		name += "_updated"
		covered.UpdatedFrom, covered.UpdatedTo = w.f.UpdatedFrom, w.f.UpdatedTo
		rest.UpdatedFrom, rest.UpdatedTo = time.Time{}, time.Time{}
	}
	if name == "leads_by" {
		name = leadsByScope
	}
	return name, covered, rest
}

// exact tells whether an index looks up all that a walk asks for.
func (s *leads) exact(w leadWalk) bool {
	_, _, rest := w.index()
	return len(s.leadConditions(w.sc, rest)) == 0
}

// matching selects the leads (alias l) of a walk that match the part f of its
// filter. SQLite, which has no statistics, is told the index; "" leaves it to look up
// the primary or a unique key.
func (s *leads) matching(tx bun.Tx, w leadWalk, index string, f waypost.LeadFilter) *bun.SelectQuery {
	q := tx.NewSelect().Model((*leadRow)(nil))
	s.indexedBy(q, "leads AS l", index)
	after := w.after
	if len(after) == 2 {
		f, after = w.tighter(f)
	}
	s.leadFilter(q, w.sc, f)
	than := ">"
	if w.order.down {
		than = "<"
	}
	switch len(after) {
	case 1:
		q.Where("l.leads_id "+than+" ?", after[0])
	case 2:
		q.Where("(l."+w.order.column+", l.leads_id) "+than+" (?, ?)", after[0], after[1])
	}
	if w.upTo != nil {
		q.Where("l.leads_id <= ?", *w.upTo)
	}
	return q
}

// tighter drops what the other implies, the filter's bound of the time that orders or
// the place that the walk begins after: with both, the databases may begin at the
// looser one.
func (w leadWalk) tighter(f waypost.LeadFilter) (waypost.LeadFilter, []int64) {
	from, to := &f.CreatedFrom, &f.CreatedTo
	if w.order.column == "updated_at" {
		from, to = &f.UpdatedFrom, &f.UpdatedTo
	}
	bound, after := from, w.after
	if w.order.down {
		bound = to
	}
	if bound.IsZero() {
		return f, after
	}
	at := stampUp(*bound).UnixMicro()
	if w.order.down && after[0] >= at || !w.order.down && after[0] < at {
		return f, nil
	}
	*bound = time.Time{}
	return f, after
}

// ordered puts leads (alias l) into the walk's order and ends after n.
func (w leadWalk) ordered(q *bun.SelectQuery, n int) *bun.SelectQuery {
	direction := " ASC"
	if w.order.down {
		direction = " DESC"
	}
	for _, column := range w.order.columns() {
		q.OrderExpr("l." + column + direction)
	}
	return q.Limit(int64(n))
}

// leadRows reads the leads of a walk.
func (s *leads) leadRows(ctx context.Context, tx bun.Tx, w leadWalk) ([]leadRow, error) {
	var rows []leadRow
	if err := s.choose(ctx, tx, &w); err != nil {
		return nil, err
	}
	if s.exact(w) {
		index, covered, _ := w.index()
		err := w.ordered(s.matching(tx, w, index, covered), w.n).Scan(ctx, &rows)
		return rows, err
	}
	ids, err := s.search(ctx, tx, w)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	if err := tx.NewSelect().Model(&rows).Where("leads_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, err
	}
	places := make(map[int64]int, len(ids))
	for i, id := range ids {
		places[id] = i
	}
	slices.SortFunc(rows, func(a, b leadRow) int { return places[a.LeadsID] - places[b.LeadsID] })
	return rows, nil
}

// leadIDs is leadRows for the ids only.
func (s *leads) leadIDs(ctx context.Context, tx bun.Tx, w leadWalk) (ids []int64, err error) {
	if err := s.choose(ctx, tx, &w); err != nil {
		return nil, err
	}
	if s.exact(w) {
		index, covered, _ := w.index()
		err = w.ordered(s.matching(tx, w, index, covered), w.n).Column("leads_id").Scan(ctx, &ids)
		return ids, err
	}
	return s.search(ctx, tx, w)
}

// search finds the leads of a walk where no index gives both the order and all that
// is looked for. If many match, the first ones are soon met in the order; if few do,
// they are soon found and sorted. It does not know how many there are: it reads a bounded part of the
// order first, another one behind what was created at other times, and finds and
// sorts all if that does not suffice.
func (s *leads) search(ctx context.Context, tx bun.Tx, w leadWalk) ([]int64, error) {
	if !w.few && len(w.f.LeadsIDs) == 0 && !w.f.TestOnly() && w.f.MobilePhone == "" && w.f.Birthday == "" && w.f.ExternalID == "" && w.f.Email == "" { // those are few
		ids, on, err := s.meet(ctx, tx, w)
		if err == nil && on != nil {
			var more []int64
			more, on, err = s.meetLater(ctx, tx, *on)
			ids = append(ids, more...)
		}
		if err != nil || on == nil {
			return ids, err
		}
	}
	return s.findAndSort(ctx, tx, w)
}

// Bounds of the way through an order: leads that are looked at for a page.
const (
	leadWay    = 1000
	leadWayFor = 10 // at least, for each lead that is asked for
	// fewLeads are found and sorted sooner than a way through an order is gone, where
	// an index has their times.
	fewLeads = 5 * leadWay
	// maxWayCount is how far rarest counts: of more leads it no longer matters how they are looked up.
	maxWayCount = 100 * leadWay
)

// metRow is a lead that was met on the way, and its place.
type metRow struct {
	ID int64 `bun:"leads_id"`
	At int64 `bun:"at"` // the time that counts before leads_id
}

// meet follows the walk's order for a bounded way. on is the way behind it, nil if
// n leads were met, or the end.
func (s *leads) meet(ctx context.Context, tx bun.Tx, w leadWalk) (ids []int64, on *leadWalk, err error) {
	index, covered, rest := w.index()
	at := "0"
	if w.order.column != "" {
		at = "l." + w.order.column
	}
	left := max(leadWay, leadWayFor*w.n)
	for size := 8 * w.n; left > 0; size = left {
		size = min(size, left)
		left -= size
		part := w.ordered(s.matching(tx, w, index, covered), size)
		var met []metRow
		q := tx.NewSelect().TableExpr("(?) AS l", part.Column(searchColumns...)).ColumnExpr("l.leads_id").ColumnExpr(at + " AS at")
		for _, c := range s.leadConditions(w.sc, rest) {
			q.Where(c.text, c.args...)
		}
		if err := q.Scan(ctx, &met); err != nil {
			return nil, nil, err
		}
		slices.SortFunc(met, func(a, b metRow) int {
			order := cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
			if w.order.down {
				return -order
			}
			return order
		})
		for _, lead := range met {
			if ids = append(ids, lead.ID); len(ids) == w.n {
				return ids, nil, nil
			}
		}
		// The last one that was looked at.
		var last []metRow
		q = w.ordered(s.matching(tx, w, index, covered), 1).Offset(int64(size - 1)).ColumnExpr("l.leads_id").ColumnExpr(at + " AS at")
		if err := q.Scan(ctx, &last); err != nil {
			return nil, nil, err
		}
		if len(last) == 0 {
			return ids, nil, nil
		}
		if w.after = []int64{last[0].ID}; w.order.column != "" {
			w.after = []int64{last[0].At, last[0].ID}
		}
	}
	w.n -= len(ids)
	return ids, &w, nil
}

// searchColumns are what leadConditions and orders look at.
var searchColumns = []string{
	"leads_id", "leads_group", "region", "name_folded", "email_folded", "external_id", "gender", "birthday", "custom_fields", "test", "created_at", "updated_at",
}

// findAndSort finds all leads that match and sorts them.
func (s *leads) findAndSort(ctx context.Context, tx bun.Tx, w leadWalk) (ids []int64, err error) {
	if s.hasStatistics() {
		// Without OFFSET, what leads are looked up by would depend on the order and the
		// limit, and not on all leads being needed.
		found := s.matching(tx, w, "", w.f).Column(w.order.columns()...)
		err = w.ordered(tx.NewSelect().TableExpr("(? OFFSET 0) AS l", found), w.n).Column("l.leads_id").Scan(ctx, &ids)
		return ids, err
	}
	index, err := s.rarest(ctx, tx, w.sc, w.f)
	if err == nil {
		err = w.ordered(s.matching(tx, w, index, w.f), w.n).Column("leads_id").Scan(ctx, &ids)
	}
	return ids, err
}

// choose looks whether few leads are of the group and of the region, where both are
// given and the order has no index of both.
func (s *leads) choose(ctx context.Context, tx bun.Tx, w *leadWalk) error {
	if w.f.Region == nil || w.f.LeadsGroup == nil || w.order.column == "" {
		return nil
	}
	found, err := s.countUpTo(ctx, tx, w.sc, lookUp{"leads_by_region_group", waypost.LeadFilter{Region: w.f.Region, LeadsGroup: w.f.LeadsGroup}}, fewLeads)
	w.few = found < fewLeads
	return err
}

// lookUp is an index, and the part of a filter that it looks up.
type lookUp struct {
	index string
	f     waypost.LeadFilter
}

// rarest names the index to look up leads by that match: "" for a unique key, else
// that with the fewest leads, unless all have very many. Finding that out takes a time
// like reading these few.
func (s *leads) rarest(ctx context.Context, tx bun.Tx, sc waypost.Scope, f waypost.LeadFilter) (string, error) {
	switch {
	case len(f.LeadsIDs) > 0 || f.MobilePhone != "" || f.ExternalID != "" || f.ImportID != "":
		return "", nil
	case f.Email != "":
		return "leads_by_email", nil
	case f.TestOnly():
		return leadsByTest, nil
	}
	ways := []lookUp{
		{"leads_by_name", waypost.LeadFilter{Name: f.Name}},
		{"leads_by_birthday", waypost.LeadFilter{Birthday: f.Birthday}},
		{"leads_by_created", waypost.LeadFilter{CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo}},
		{"leads_by_updated", waypost.LeadFilter{UpdatedFrom: f.UpdatedFrom, UpdatedTo: f.UpdatedTo}},
	}
	if f.Region != nil && f.LeadsGroup != nil {
		ways = append(ways, lookUp{"leads_by_region_group", waypost.LeadFilter{Region: f.Region, LeadsGroup: f.LeadsGroup}})
	} else {
		ways = append(ways, lookUp{"leads_by_group", waypost.LeadFilter{LeadsGroup: f.LeadsGroup}}, lookUp{"leads_by_region", waypost.LeadFilter{Region: f.Region}})
	}
	ways = slices.DeleteFunc(ways, func(way lookUp) bool { return len(s.leadConditions(sc, way.f)) == 0 })
	switch len(ways) {
	case 0:
		return leadsByScope, nil
	case 1:
		return ways[0].index, nil
	}
	for bound := int64(leadWay); ; bound *= 10 {
		best, fewest := ways[0].index, bound
		for _, way := range ways {
			found, err := s.countUpTo(ctx, tx, sc, way, bound)
			if err != nil {
				return "", err
			}
			if found < fewest {
				best, fewest = way.index, found
			}
		}
		if fewest < bound || bound >= maxWayCount {
			return best, nil
		}
	}
}

// countUpTo counts the leads that a way finds, at most bound.
func (s *leads) countUpTo(ctx context.Context, tx bun.Tx, sc waypost.Scope, way lookUp, bound int64) (int64, error) {
	some := s.matching(tx, leadWalk{sc: sc}, way.index, way.f).ColumnExpr("1 AS one").Limit(bound)
	return tx.NewSelect().TableExpr("(?) AS l", some).Count(ctx)
}
