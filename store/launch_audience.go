package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"waypost"
)

// condition is a part of WHERE.
type condition struct {
	text string
	args []any
}

// leadConditions are what leads (alias l) of the scope must meet to match, each but the
// gender with an index; SQLite has none of custom fields. Case does not count in names and e-mail addresses.
func (s *leads) leadConditions(sc waypost.Scope, f waypost.LeadFilter) []condition {
	var list []condition
	add := func(text string, args ...any) { list = append(list, condition{text, args}) }
	if len(f.LeadsIDs) > 0 {
		add("l.leads_id IN (?)", bun.List(f.LeadsIDs))
	}
	if f.LeadsGroup != nil {
		add("l.leads_group = ?", *f.LeadsGroup)
	}
	if f.Region != nil {
		add("l.region = ?", *f.Region)
	}
	if name := waypost.FoldText(cleanText(f.Name)); name != "" {
		// Not LIKE: nothing needs escaping here.
		add("l.name_folded >= ?", name)
		if end := prefixEnd(name); end != "" {
			add("l.name_folded < ?", end)
		}
	}
	if f.MobilePhone != "" {
		add("l.leads_id = (SELECT leads_id FROM lead_phones WHERE org = ? AND stage = ? AND phone = ?)", sc.Org, sc.Stage, cleanText(f.MobilePhone))
	}
	if f.Email != "" {
		add("l.email_folded = ?", waypost.FoldText(cleanText(f.Email)))
	}
	if f.ExternalID != "" {
		add("l.external_id = ?", cleanText(f.ExternalID))
	}
	if f.Gender != nil {
		add("l.gender = ?", *f.Gender)
	}
	switch {
	case f.TestOnly():
		add("l.test")
	case f.Test != nil:
		add("NOT l.test")
	}
	if f.Birthday != "" {
		days := []string{f.Birthday[max(0, len(f.Birthday)-len("12-31")):]}
		if year := s.now().UTC().Year(); f.Birthday == "--02-28" && time.Date(year, 2, 29, 0, 0, 0, 0, time.UTC).Day() != 29 {
			days = append(days, "02-29") // whose birthday is the 28th this year
		}
		add("l.birthday IS NOT NULL AND substr(l.birthday, length(l.birthday) - 4) IN (?)", bun.List(days))
		if !strings.HasPrefix(f.Birthday, "--") {
			add("l.birthday = ?", f.Birthday)
		}
	}
	if f.ImportID != "" {
		add("l.leads_id IN (SELECT leads_id FROM import_leads WHERE import_id = ?)", cleanText(f.ImportID))
	}
	for _, name := range slices.Sorted(maps.Keys(f.CustomFields)) {
		list = append(list, s.hasField(name, f.CustomFields[name]))
	}
	for _, bound := range []struct {
		condition string
		at        time.Time
	}{
		{"l.created_at >= ?", f.CreatedFrom}, {"l.created_at < ?", f.CreatedTo},
		{"l.updated_at >= ?", f.UpdatedFrom}, {"l.updated_at < ?", f.UpdatedTo},
	} {
		if !bound.at.IsZero() {
			add(bound.condition, stampUp(bound.at))
		}
	}
	return list
}

// prefixEnd is the first text, by its bytes, after all that begin with prefix; "" if
// there is none. It is valid UTF-8, as PostgreSQL demands.
func prefixEnd(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		if next := runes[i] + 1; next <= utf8.MaxRune {
			if !utf8.ValidRune(next) { // surrogates
				next = 0xE000
			}
			return string(append(runes[:i], next))
		}
	}
	return ""
}

// leadFilter narrows a query of leads (alias l) to those of the scope that match.
func (s *leads) leadFilter(q *bun.SelectQuery, sc waypost.Scope, f waypost.LeadFilter) *bun.SelectQuery {
	q.Where("l.org = ? AND l.stage = ?", sc.Org, sc.Stage)
	for _, c := range s.leadConditions(sc, f) {
		q.Where(c.text, c.args...)
	}
	return q
}

// stampUp is the first time that a column can hold which is not before at.
func stampUp(at time.Time) stamp {
	if down := at.Truncate(time.Microsecond); down.Before(at) {
		return stamp{down.Add(time.Microsecond)}
	}
	return stamp{at}
}

func checkFilter(f waypost.LeadFilter) error {
	var p waypost.Problems
	checkText(&p, "audience.filter.name", f.Name)
	checkText(&p, "audience.filter.mobilePhone", f.MobilePhone)
	checkText(&p, "audience.filter.email", f.Email)
	checkText(&p, "audience.filter.externalId", f.ExternalID)
	checkText(&p, "audience.filter.birthday", f.Birthday)
	checkText(&p, "audience.filter.importId", f.ImportID)
	for name, value := range f.CustomFields {
		checkText(&p, "audience.filter.customFields", name+value)
	}
	return p.Err("audience.filter")
}

// listPart is the number of listed leads in one row: few rows for a million of
// them, and not much to decode for one step.
const listPart = 10_000

// partRow is a part of the leads that a launch lists.
type partRow struct {
	bun.BaseModel `bun:"table:launch_leads,alias:ll"`

	LaunchID string `bun:"launch_id,pk"`
	Last     int64  `bun:"last,pk"` // the highest of them
	IDs      []byte `bun:"ids"`
}

// newParts packs a list, ascending and distinct.
func newParts(launchID string, leads []int64) []partRow {
	var parts []partRow
	for part := range slices.Chunk(leads, listPart) {
		ids := make([]byte, 0, 2*len(part))
		var before int64
		for _, id := range part {
			ids = binary.AppendUvarint(ids, uint64(id-before))
			before = id
		}
		parts = append(parts, partRow{LaunchID: launchID, Last: before, IDs: ids})
	}
	return parts
}

// leads unpacks the part.
func (r partRow) leads() ([]int64, error) {
	var leads []int64
	var id int64
	for rest := r.IDs; len(rest) > 0; {
		step, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, errors.New("a part of a launch's list is damaged")
		}
		id += int64(step)
		leads, rest = append(leads, id), rest[n:]
	}
	return leads, nil
}

// audienceBatch is the next leads of an audience.
type audienceBatch struct {
	leads   []int64        // ascending; all of them exist
	tests   map[int64]bool // which of them are test leads
	missing int            // listed ones that do not
	gone    int            // held ones that are not in the audience any more
	heldOut []int64        // those of the control group, who are not among leads; ascending
	held    []int64        // those who wait for the end of the test, who are not among leads; ascending
	looked  int            // how many were looked at
	reached *int64         // the last one that was looked at
	done    bool           // nobody follows
}

// nextAudience reads the next n leads of a launch's audience.
func (s *launches) nextAudience(ctx context.Context, l launchRow, rules versionRules, n int) (b audienceBatch, err error) {
	look := n
	if l.part() == partTest { // most of them are held
		look = maxStep
	}
	// One more than asked for tells whether anybody follows.
	switch {
	case l.part() == partRest || l.listed():
		b.leads, err = s.nextListed(ctx, l, look+1)
	case l.Filter != nil:
		b.leads, err = s.nextFiltered(ctx, l, look+1)
	default:
		b.leads, err = s.nextMembers(ctx, l, look+1)
	}
	if err != nil {
		return b, err
	}
	b.done = len(b.leads) <= look
	b.leads = b.leads[:min(look, len(b.leads))]
	if l.part() == partTest {
		if err := b.pick(l, rules, n); err != nil {
			return b, err
		}
	} else {
		b.looked, b.reached = len(b.leads), lastOr(b.leads, l.Reached)
	}
	if l.part() == partRest && !l.listed() {
		if b.leads, err = s.stillIn(ctx, l, b.leads); err != nil {
			return b, err
		}
		b.gone = b.looked - len(b.leads)
	}
	if l.listed() && len(b.leads) > 0 {
		listed := b.leads
		b.leads = nil
		err = s.leads.leadFilter(s.r.NewSelect().Model((*leadRow)(nil)).Column("leads_id"), l.Scope, waypost.LeadFilter{}).
			Where("l.leads_id IN (?)", bun.List(listed)).Order("l.leads_id").Scan(ctx, &b.leads)
		b.missing = len(listed) - len(b.leads)
	}
	if err == nil {
		b.tests, err = s.statistics.testLeads(ctx, s.r, l.Scope, b.leads)
	}
	all := b.leads
	b.leads = nil
	for _, lead := range all {
		if !b.tests[lead] && rules.holdsOut(lead, l.ControlGroup) {
			b.heldOut = append(b.heldOut, lead)
		} else {
			b.leads = append(b.leads, lead)
		}
	}
	return b, err
}

func (s *launches) nextFiltered(ctx context.Context, l launchRow, n int) (leads []int64, err error) {
	f, err := l.filter()
	if err != nil {
		return nil, err
	}
	walk := leadWalk{sc: l.Scope, f: f, upTo: &l.Highest, n: n}
	if l.Reached != nil {
		walk.after = []int64{*l.Reached}
	}
	err = s.leads.leadSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		leads, err = s.leads.leadIDs(ctx, tx, walk)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the audience: %w", err)
	}
	return leads, nil
}

func (s *launches) nextMembers(ctx context.Context, l launchRow, n int) (leads []int64, err error) {
	after := int64(0)
	if l.Reached != nil {
		after = *l.Reached
	}
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := s.segments.readSegment(ctx, tx, l.Scope, *l.SegmentID, l.StartedAt.Time)
		if err == nil {
			leads, err = s.segments.memberIDs(ctx, tx, r, after, &l.Highest, n)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the audience: %w", err)
	}
	return leads, nil
}

// nextListed returns up to n leads of a listed audience, in the order of their ids, after the last one that
// the launch has reached. Fewer than n: the list ends.
func (s *launches) nextListed(ctx context.Context, l launchRow, n int) ([]int64, error) {
	var leads []int64
	for after := l.Reached; len(leads) < n; {
		var parts []partRow
		q := s.r.NewSelect().Model(&parts).Where("launch_id = ?", cmp.Or(text(l.RecurringID), l.ID))
		if after != nil {
			q.Where("last > ?", *after)
		}
		if err := q.Order("last").Limit(1).Scan(ctx); err != nil {
			return nil, fmt.Errorf("read the audience: %w", err)
		}
		if len(parts) == 0 {
			return leads, nil
		}
		part, err := parts[0].leads()
		if err != nil {
			return nil, err
		}
		if after != nil {
			first, _ := slices.BinarySearch(part, *after+1)
			part = part[first:]
		}
		leads = append(leads, part[:min(n-len(leads), len(part))]...)
		after = &parts[0].Last
	}
	return leads, nil
}

// measureAudience counts an audience that is not listed, and finds its highest
// lead: whoever comes later does not belong to it.
func (s *launches) measureAudience(ctx context.Context, l launchRow) (total int, highest int64, err error) {
	if l.SegmentID != nil {
		err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
			r, err := s.segments.readSegment(ctx, tx, l.Scope, *l.SegmentID, l.StartedAt.Time)
			if err == nil {
				total, highest, _, err = s.segments.countMembers(ctx, tx, r, 0)
			}
			return err
		})
		if err != nil {
			return 0, 0, fmt.Errorf("measure the audience: %w", err)
		}
		return total, highest, nil
	}
	f, err := l.filter()
	if err != nil {
		return 0, 0, err
	}
	var found struct {
		Total   int   `bun:"total"`
		Highest int64 `bun:"highest"`
	}
	q := s.r.NewSelect().Model((*leadRow)(nil)).ColumnExpr("count(*) AS total, COALESCE(max(l.leads_id), 0) AS highest")
	if err := s.leads.leadFilter(q, l.Scope, f).Scan(ctx, &found); err != nil {
		return 0, 0, fmt.Errorf("measure the audience: %w", err)
	}
	return found.Total, found.Highest, nil
}

// audiencePage tells which lists of leads are no longer read: their launches, with their
// occurrences, have done with them or are canceled.
func (s *launches) audiencePage(p sweepPlace) *bun.SelectQuery {
	q := s.pageAfter("launch_leads", "launch_id", "last", p, waypost.PrefixLaunch)
	return q.ColumnExpr(`COALESCE(la.cron IS NULL AND la.done_at < ?0
			OR EXISTS (SELECT 1 FROM controls AS c WHERE c.target = la.id AND c.kind = 'cancel' AND c.from_at < ?0), FALSE) AS is_over`, p.before()).
		Join("LEFT JOIN launches AS la ON la.id = k.id")
}

// dropAudiences drops parts of such lists.
func (s *launches) dropAudiences(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	parts := mapped(rows, func(r sweepRow) partRow { return partRow{LaunchID: r.ID, Last: r.Number} })
	return affected(tx.NewDelete().Model(&parts).WherePK().Exec(ctx))
}
