package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// addressed is what became of looking for the lead of an event.
type addressed struct {
	fault *waypost.Error
	known bool // there is no such lead, but the event was accepted before
}

// holdersByEmail finds the leads of an address, or two of them.
var holdersByEmail = dialects{
	postgres: "SELECT k.key, h.leads_id FROM unnest($3::text[]) AS k (key) CROSS JOIN LATERAL (SELECT leads_id FROM leads " +
		"WHERE org = $1 AND stage = $2 AND email_folded >= k.key AND email_folded <= k.key ORDER BY email_folded, leads_id LIMIT 2) AS h",
	sqlite: "SELECT k.value, h.leads_id FROM json_each(?3) AS k CROSS JOIN leads AS h WHERE h.org = ?1 AND h.stage = ?2 AND h.email_folded = k.value",
}

// eventAddress is the address that names the lead of an event, as storage knows it.
func eventAddress(to waypost.EventLead) (address waypost.EventLead) {
	switch {
	case to.ExternalID != "":
		address.ExternalID = cleanText(to.ExternalID)
	case to.Email != "":
		address.Email = waypost.FoldText(cleanText(to.Email))
	default:
		address.Phone = cleanText(to.Phone)
	}
	return address
}

// addressEvents sets the LeadsID of events that name their lead otherwise, and makes the leads that
// are to be made. Events that have theirs cost nothing.
func (s *events) addressEvents(ctx context.Context, tx bun.Tx, sc waypost.Scope, rows []eventRow, bulk bool) ([]addressed, error) {
	became := make([]addressed, len(rows))
	var places []int
	for i, row := range rows {
		if row.to.Target() != "leadsId" {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return became, nil
	}
	holders, err := s.eventLeads(ctx, tx, sc, mapped(places, func(i int) waypost.EventLead { return eventAddress(rows[i].to) }))
	if err != nil {
		return nil, err
	}
	var lacking []int // of those in rows
	for _, i := range places {
		if found := holders[eventAddress(rows[i].to)]; len(found) == 1 {
			rows[i].LeadsID = found[0]
		} else {
			lacking = append(lacking, i)
		}
	}
	if len(lacking) == 0 {
		return became, nil
	}
	known, err := knownEvents(ctx, tx, sc, mapped(lacking, func(i int) string { return rows[i].EventID }))
	if err != nil {
		return nil, err
	}
	lacking = slices.DeleteFunc(lacking, func(i int) bool {
		became[i].known = slices.Contains(known, rows[i].EventID)
		return became[i].known
	})
	if err := s.createEventLeads(ctx, tx, rows, lacking, bulk); err != nil {
		return nil, err
	}
	for _, i := range lacking {
		if rows[i].LeadsID == 0 {
			became[i].fault = addressFault(rows[i].to, len(holders[eventAddress(rows[i].to)]))
		}
	}
	return became, nil
}

// addressFault says why an address names no lead; n of them have it, or more. It repeats no address.
func addressFault(to waypost.EventLead, n int) *waypost.Error {
	target := to.Target()
	if n == 0 {
		return waypost.Errorf(waypost.CodeNotFound, target, "there is no lead with this %s", target)
	}
	fault := waypost.Errorf(waypost.CodeConflict, target, "several leads have this %s; name the one that is meant by its leadsId or its externalId", target)
	fault.Details = []waypost.Detail{{Code: waypost.DetailAmbiguous, Target: target, Message: fault.Message}}
	return fault
}

// eventLeads finds the leads of addresses; of an e-mail address that several have, two of them or more.
func (s *events) eventLeads(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, addresses []waypost.EventLead,
) (map[waypost.EventLead][]int64, error) {
	found := map[waypost.EventLead][]int64{}
	for _, by := range []struct {
		q    dialects
		text func(waypost.EventLead) string
		key  func(string) waypost.EventLead
	}{
		{holdersByExternal, func(a waypost.EventLead) string { return a.ExternalID }, func(key string) waypost.EventLead { return waypost.EventLead{ExternalID: key} }},
		{holdersByEmail, func(a waypost.EventLead) string { return a.Email }, func(key string) waypost.EventLead { return waypost.EventLead{Email: key} }},
		{holdersByPhone, func(a waypost.EventLead) string { return a.Phone }, func(key string) waypost.EventLead { return waypost.EventLead{Phone: key} }},
	} {
		keys := distinct(slices.DeleteFunc(mapped(addresses, by.text), func(text string) bool { return text == "" }))
		err := s.leads.eachHolder(ctx, tx, by.q, sc, keys, func(key string, id int64) { found[by.key(key)] = append(found[by.key(key)], id) })
		if err != nil {
			return nil, fmt.Errorf("look for the leads of events: %w", err)
		}
	}
	return found, nil
}

// knownEvents returns which of the ids the scope has events of.
func knownEvents(ctx context.Context, tx bun.Tx, sc waypost.Scope, ids []string) (known []string, err error) {
	err = tx.NewSelect().Model((*eventRow)(nil)).Column("event_id").
		Where("org = ? AND stage = ? AND event_id IN (?)", sc.Org, sc.Stage, bun.List(distinct(ids))).Scan(ctx, &known)
	return known, wrapped(err, "look for events")
}

// createEventLeads makes the leads of events that ask for it, in the order of their externalIds: two
// transactions that make the same leads do not wait for each other. lacking has their places.
func (s *events) createEventLeads(ctx context.Context, tx bun.Tx, rows []eventRow, lacking []int, bulk bool) error {
	byID := map[string][]int{}
	for _, i := range lacking {
		if rows[i].to.Create {
			id := cleanText(rows[i].to.ExternalID)
			byID[id] = append(byID[id], i)
		}
	}
	ids := make([]string, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	for _, id := range distinct(ids) {
		lead, err := s.createEventLead(ctx, tx, rows[byID[id][0]], id, bulk)
		if err != nil {
			return fmt.Errorf("create the lead of an event: %w", err)
		}
		for _, i := range byID[id] {
			rows[i].LeadsID = lead
		}
	}
	return nil
}

// createEventLead makes a lead with an externalId, which is its name too, unless another transaction
// has just made it.
func (s *events) createEventLead(ctx context.Context, tx bun.Tx, e eventRow, externalID string, bulk bool) (int64, error) {
	row, err := newLeadRow(e.Scope, waypost.LeadFields{Name: externalID, ExternalID: &externalID})
	if err != nil {
		return 0, err
	}
	now := stamp{s.time()}
	row.CreatedAt, row.UpdatedAt = now, now
	lead, err := s.leadChanges.createLead(ctx, tx, &row, nil, e.author, bulk)
	if errors.Is(err, errDuplicate) {
		holders, err := s.eventLeads(ctx, tx, e.Scope, []waypost.EventLead{{ExternalID: externalID}})
		if found := holders[waypost.EventLead{ExternalID: externalID}]; len(found) > 0 {
			return found[0], err
		}
		return 0, errors.Join(err, errDuplicate) // it was deleted meanwhile
	}
	return lead.LeadsID, err
}
