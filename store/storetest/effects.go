package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"waypost"
)

// effects are those of enrollments at their first visit, to the node do; each goes on to the node next.
func (f *fixture) effects(t testing.TB, journey string, ids ...string) waypost.EffectBatch {
	t.Helper()
	b := waypost.EffectBatch{Scope: scope, JourneyID: journey, At: f.clock.Now().Add(time.Microsecond)}
	for _, id := range ids {
		b.Items = append(b.Items, waypost.Effect{
			Touchpoint: waypost.Touchpoint{EnrollmentID: id, Visit: 1}, NodeID: "do", LeadsID: f.enrollment(t, id).LeadsID, Seq: 1,
			Progress: waypost.Progress{EnrollmentID: id, Status: waypost.EnrollmentRunning, NodeID: "next", LastSeq: 2, Entries: []waypost.TimelineEntry{
				{Seq: 1, At: b.At, NodeID: "do", What: waypost.WhatEntered}, {Seq: 2, At: b.At, NodeID: "do", What: waypost.WhatEmitted, Next: "next", Reason: "why"},
			}},
			Event: waypost.Event{EventID: id + "/do/1", Name: "told", LeadsID: f.enrollment(t, id).LeadsID, Properties: map[string]any{"n": 1.5}, Depth: 2},
		})
	}
	return b
}

// setRemark sets the remark of a lead to how often it was set.
func setRemark(l waypost.Lead) (waypost.LeadFields, []string, error) {
	n := 0
	if l.Remark != nil {
		_, _ = fmt.Sscan(*l.Remark, &n)
	}
	l.Remark = new(fmt.Sprint(n + 1))
	return l.LeadFields, nil, nil
}

var effectTests = []test{
	{"emit once", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		workflow, ids := f.started(t, journey, 2)
		w := f.wait(t, ids[1], workflow, "told")
		f.await(t, w)
		b := f.effects(t, journey, ids...)
		for again := range 3 {
			results := must[map[waypost.Touchpoint]waypost.EffectResult](t)(f.EmitEvents(t.Context(), b))
			for _, item := range b.Items {
				r := results[item.Touchpoint]
				if r.Stopped || (r.Recorded != nil) != (again > 0) || again > 0 && (r.Recorded.What != waypost.WhatEmitted || r.Recorded.Reason != "why" || !r.Recorded.At.Equal(b.At)) {
					t.Fatalf("run %d: %+v", again, r)
				}
			}
			f.clock.Advance(time.Minute)
		}
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[1], EventID: ids[1] + "/do/1"}})
		for i, id := range ids {
			e, timeline, err := f.Enrollment(t.Context(), scope, id)
			ok(t, err)
			equal(t, "stands", e.NodeID, "next")
			equal(t, "entries", len(timeline), 2)
			events := must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{LeadsID: e.LeadsID}, waypost.Page{}))
			equal(t, "events", len(events), 1)
			want := b.Items[i].Event
			want.OccurredAt, want.AcceptedAt, want.Seq = b.At.Add(-time.Microsecond), b.At.Add(-time.Microsecond), events[0].Seq
			equal(t, "event", events[0], want)
		}
		recorded := must[map[waypost.Touchpoint]waypost.TimelineEntry](t)(f.RecordedEffects(t.Context(), b.Items))
		equal(t, "recorded", recorded[b.Items[0].Touchpoint].What, waypost.WhatEmitted)
		none := must[map[waypost.Touchpoint]waypost.EffectResult](t)(f.EmitEvents(t.Context(), waypost.EffectBatch{Scope: scope, JourneyID: journey}))
		equal(t, "nothing", len(none), 0)
	}},
	{"update once", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		_, ids := f.started(t, journey, 1)
		b := f.effects(t, journey, ids...)
		refused := errors.New("refused")
		_, err := f.UpdateLeadAt(t.Context(), b, func(waypost.Lead) (waypost.LeadFields, []string, error) { return waypost.LeadFields{}, nil, refused })
		if !errors.Is(err, refused) {
			t.Fatal(err)
		}
		equal(t, "not recorded", f.enrollment(t, ids[0]).NodeID, "")
		must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Bob", ExternalID: new("taken")}, nil))
		_, err = f.UpdateLeadAt(t.Context(), b, func(l waypost.Lead) (waypost.LeadFields, []string, error) {
			l.ExternalID = new("taken")
			return l.LeadFields, nil, nil
		})
		wantCode(t, err, waypost.CodeConflict)
		equal(t, "not recorded", f.enrollment(t, ids[0]).NodeID, "")
		for again := range 3 {
			r := must[waypost.EffectResult](t)(f.UpdateLeadAt(t.Context(), b, setRemark))
			if r.Stopped || (r.Recorded != nil) != (again > 0) {
				t.Fatalf("run %d: %+v", again, r)
			}
		}
		equal(t, "set", *must[waypost.Lead](t)(f.Lead(t.Context(), scope, b.Items[0].LeadsID)).Remark, "1")
		equal(t, "recorded", f.enrollment(t, ids[0]).NodeID, "next")
	}},
	{"at the same time", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		_, ids := f.started(t, journey, 4)
		b := f.effects(t, journey, ids...)
		for _, err := range atOnce(8, func(i int) error {
			one := b
			one.Items = b.Items[i%2 : i%2+1]
			if _, err := f.UpdateLeadAt(t.Context(), one, setRemark); err != nil {
				return err
			}
			_, err := f.EmitEvents(t.Context(), waypost.EffectBatch{Scope: scope, JourneyID: journey, At: b.At, Items: b.Items[2:]})
			return err
		}) {
			ok(t, err)
		}
		for i, item := range b.Items {
			lead := must[waypost.Lead](t)(f.Lead(t.Context(), scope, item.LeadsID))
			events := must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{LeadsID: item.LeadsID}, waypost.Page{}))
			if i < 2 && *lead.Remark != "1" || len(events) != i/2 {
				t.Errorf("item %d: %+v, %d events", i, lead, len(events))
			}
		}
	}},
	{"stopped", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		_, ids := f.started(t, journey, 4)
		b := f.effects(t, journey, ids...)
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, ids[0]))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[1]))
		ok(t, f.DeleteLead(t.Context(), scope, b.Items[2].LeadsID, nil))
		results := must[map[waypost.Touchpoint]waypost.EffectResult](t)(f.EmitEvents(t.Context(), b))
		for i, item := range b.Items {
			equal(t, fmt.Sprint("stopped ", i), results[item.Touchpoint], waypost.EffectResult{Stopped: i < 3})
			one := b
			one.Items = []waypost.Effect{item}
			if i < 3 {
				equal(t, "the update too", must[waypost.EffectResult](t)(f.UpdateLeadAt(t.Context(), one, setRemark)), waypost.EffectResult{Stopped: true})
			}
		}
	}},
	{"exits on its own event", func(t *testing.T, f *fixture) {
		journey := f.exiting(t)
		_, ids := f.started(t, journey, 1)
		b := f.effects(t, journey, ids...)
		b.Items[0].Event.Name = "leave"
		must[map[waypost.Touchpoint]waypost.EffectResult](t)(f.EmitEvents(t.Context(), b))
		e, timeline, err := f.Enrollment(t.Context(), scope, ids[0])
		ok(t, err)
		equal(t, "status", e.Status, waypost.EnrollmentExited)
		equal(t, "entries", []string{timeline[1].What, timeline[2].What, timeline[2].Reason}, []string{waypost.WhatEmitted, waypost.WhatExited, "event leave"})
		again := must[map[waypost.Touchpoint]waypost.EffectResult](t)(f.EmitEvents(t.Context(), b))
		equal(t, "again", again[b.Items[0].Touchpoint].Recorded.What, waypost.WhatEmitted)
	}},
}
