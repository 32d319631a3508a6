package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// sampledLeads is how many of the newest leads, and how many that are spread over all,
// CustomFields looks at.
const sampledLeads = 1000

// CustomFields lists the custom fields that leads of the scope have, the most frequent
// first, at most maxFieldNames. It looks at the newest leads, so that what a first import
// has brought is there, and at some that are spread over all, and tells how many these are.
func (s *leads) CustomFields(ctx context.Context, sc waypost.Scope) (fields []waypost.CustomField, sampled int, err error) {
	defer wrap(&err, "look for custom fields")
	var rows []leadRow
	err = s.leadSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		rows, err = s.sampleLeads(ctx, tx, sc)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	counts, types := map[string]int{}, map[string]string{}
	for _, row := range rows {
		lead, err := row.lead()
		if err != nil {
			return nil, 0, err
		}
		for name, value := range lead.CustomFields {
			counts[name]++
			if types[name] = cmp.Or(types[name], typeOf(value)); types[name] != typeOf(value) {
				types[name] = "mixed"
			}
		}
	}
	for name, n := range counts {
		fields = append(fields, waypost.CustomField{Name: name, Type: types[name], Share: float64(n) / float64(len(rows))})
	}
	slices.SortFunc(fields, func(a, b waypost.CustomField) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	return fields[:min(len(fields), maxFieldNames)], len(rows), nil
}

// typeOf names the type of a custom field's value.
func typeOf(value any) string {
	switch value.(type) {
	case bool:
		return "boolean"
	case float64:
		return "number"
	}
	return "string"
}

// sampleLeads reads the custom fields of the leads that CustomFields looks at.
func (s *leads) sampleLeads(ctx context.Context, tx bun.Tx, sc waypost.Scope) (rows []leadRow, err error) {
	columns := []string{"leads_id", "custom_fields"}
	newest := leadWalk{sc: sc, order: leadOrder{down: true}}
	if err := newest.ordered(s.matching(tx, newest, leadsByScope, newest.f), sampledLeads).Column(columns...).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	if len(rows) < sampledLeads {
		return rows, nil
	}
	// The others by places on the way from the oldest one: the first lead after each.
	oldest := leadWalk{sc: sc}
	var ends []int64
	if err := oldest.ordered(s.matching(tx, oldest, leadsByScope, oldest.f), 1).Column("leads_id").Scan(ctx, &ends); err != nil {
		return nil, err
	}
	last := rows[len(rows)-1].LeadsID
	step := (last-ends[0])/sampledLeads + 1
	first := oldest.ordered(s.matching(tx, oldest, leadsByScope, oldest.f), 1).Column("leads_id").Where("l.leads_id >= p.id AND l.leads_id < ?", last)
	var ids []int64
	err = tx.NewRaw("WITH RECURSIVE p (id) AS (SELECT CAST(? AS BIGINT) UNION ALL SELECT p.id + ? FROM p WHERE p.id + ? < ?) "+
		"SELECT f.id FROM (SELECT DISTINCT (?) AS id FROM p) AS f WHERE f.id IS NOT NULL", ends[0], step, step, last, first).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("spread a sample: %w", err)
	}
	if len(ids) == 0 {
		return rows, nil
	}
	var spread []leadRow
	if err := tx.NewSelect().Model(&spread).Column(columns...).Where("leads_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, err
	}
	return append(rows, spread...), nil
}
