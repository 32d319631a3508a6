package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// suppress keeps a channel from an address.
func (f *fixture) suppress(t testing.TB, s waypost.Suppression) waypost.Suppression {
	t.Helper()
	return must[waypost.Suppression](t)(f.CreateSuppression(t.Context(), scope, s))
}

// reachable makes a lead that has all kinds of addresses and agrees to sms.
func (f *fixture) reachable(t testing.TB, n int) waypost.Lead {
	t.Helper()
	phones := []string{fmt.Sprintf("+86138001380%02d", n), fmt.Sprintf("+86138001390%02d", n)}
	return must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{
		Name: "Ada", Email: ptr(fmt.Sprintf("Ada%d@Example.com", n)), ExternalID: ptr(fmt.Sprintf("crm-%d", n)), MobilePhone: phones,
		Consents: map[string]any{"sms": true, "email": false},
	}, phones))
}

// openingThrough is the first touchpoint of a new enrollment of a lead, through a channel.
func (f *fixture) openingThrough(t testing.TB, journey string, lead int64, channel string, needsConsent bool) delivery.Opening {
	t.Helper()
	o := f.capped(t, journey, lead, 0, 0)
	o.Channel, o.NeedsConsent = channel, needsConsent
	return o
}

// later is the second attempt of an opening whose first one is recorded.
func (f *fixture) later(o delivery.Opening) delivery.Opening {
	o.Attempt, o.Body, o.At = 2, nil, f.clock.Now()
	return o
}

func (f *fixture) skipUnwanted(t testing.TB, openings ...delivery.Opening) map[waypost.Touchpoint]delivery.Sending {
	t.Helper()
	return must[map[waypost.Touchpoint]delivery.Sending](t)(f.SkipUnwanted(t.Context(), openings))
}

// wantUnwanted fails unless the opening was skipped for the reason, which its delivery and
// its timeline tell.
func (f *fixture) wantUnwanted(t testing.TB, o delivery.Opening, s delivery.Sending, reason string) {
	t.Helper()
	if s.Skipped != reason || s.Open != nil || s.Held {
		t.Fatalf("got %+v, want it skipped: %s", s, reason)
	}
	d, _, _ := f.delivery(t, o.Touchpoint)
	if d.Status != waypost.DeliveryCanceled || d.DeferredReason != reason || d.NextAttemptAt != nil {
		t.Fatalf("delivery %+v", d)
	}
	entries := f.timeline(t, o.EnrollmentID)
	if len(entries) != 2 || entries[0].What != waypost.WhatSkipped || entries[0].Reason != reason {
		t.Fatalf("timeline %+v", entries)
	}
	equal(t, "enrollment", f.status(t, o.EnrollmentID), waypost.EnrollmentCompleted)
}

var suppressionTests = []test{
	{"round trip", func(t *testing.T, f *fixture) {
		var made []waypost.Suppression
		for _, s := range []waypost.Suppression{
			{Channel: "sms", MobilePhone: "+8613800138001"}, {Channel: "email", Email: "Ada1@Example.COM"}, {Channel: "sms", ExternalID: "crm-1"},
		} {
			got := must[waypost.Suppression](t)(f.CreateSuppression(t.Context(), ada, s))
			if !waypost.IsID(waypost.PrefixSuppression, got.ID) {
				t.Fatalf("id %q", got.ID)
			}
			s.ID, s.CreatedAt = got.ID, f.clock.Now()
			equal(t, "created", got, s)
			equal(t, "read", must[waypost.Suppression](t)(f.Suppression(t.Context(), scope, s.ID)), s)
			f.clock.Advance(time.Second)
			// The same again is the same; letter case of an e-mail address does not count.
			again := s
			again.Email, again.ID = strings.ToLower(s.Email), ""
			s.Existed = true
			equal(t, "again", must[waypost.Suppression](t)(f.CreateSuppression(t.Context(), ada, again)), s)
			s.Existed = false
			made = append([]waypost.Suppression{s}, made...)
		}
		list := func(sc waypost.Scope, filter waypost.SuppressionFilter) []waypost.Suppression {
			return must[[]waypost.Suppression](t)(f.ListSuppressions(t.Context(), sc, filter, waypost.Page{Limit: 10}))
		}
		equal(t, "all", list(scope, waypost.SuppressionFilter{}), made)
		equal(t, "of a channel", list(scope, waypost.SuppressionFilter{Channel: "email"}), made[1:2])
		page := must[[]waypost.Suppression](t)(f.ListSuppressions(t.Context(), scope, waypost.SuppressionFilter{}, waypost.Page{Limit: 1, After: made[0].ID}))
		equal(t, "page", page, made[1:2])
		equal(t, "of a lead", list(scope, waypost.SuppressionFilter{LeadsID: f.reachable(t, 1).LeadsID}), made)
		equal(t, "of another", len(list(scope, waypost.SuppressionFilter{LeadsID: f.reachable(t, 2).LeadsID})), 0)
		for _, sc := range foreign {
			equal(t, "foreign", len(list(sc, waypost.SuppressionFilter{})), 0)
			_, err := f.Suppression(t.Context(), sc, made[0].ID)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DeleteSuppression(t.Context(), sc, made[0].ID, nil), waypost.CodeNotFound)
		}
		refused := waypost.Errorf(waypost.CodePreconditionFailed, "", "no")
		wantCode(t, f.DeleteSuppression(t.Context(), ada, made[0].ID, func(waypost.Suppression) error { return refused }), waypost.CodePreconditionFailed)
		ok(t, f.DeleteSuppression(t.Context(), ada, made[0].ID, nil))
		wantCode(t, f.DeleteSuppression(t.Context(), ada, made[0].ID, nil), waypost.CodeNotFound)
		equal(t, "left", list(scope, waypost.SuppressionFilter{}), made[1:])
		// The audit log has what was done, once each, and no address.
		lines := linesOf(f.audited(t, waypost.AuditFilter{}))
		equal(t, "audited", len(lines), 4)
		equal(t, "deleted", lines[0], "app_1 ada req suppression.delete "+made[0].ID+` {"address":"externalId","channel":"sms"} `)
		for _, line := range lines {
			if strings.Contains(line, "138001") || strings.Contains(line, "xample") || strings.Contains(line, "crm-1") {
				t.Fatalf("an address in %q", line)
			}
		}
	}},
	{"skipped", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		for i, c := range []struct {
			suppressed   waypost.Suppression
			channel      string
			needsConsent bool
			reason       string
		}{
			{waypost.Suppression{Channel: "sms", MobilePhone: "+8613800139000"}, "sms", false, waypost.SkipSuppressed}, // the second number
			{waypost.Suppression{Channel: "sms", Email: "ADA1@example.com"}, "sms", true, waypost.SkipSuppressed},
			{waypost.Suppression{Channel: "sms", ExternalID: "crm-2"}, "sms", false, waypost.SkipSuppressed},
			{waypost.Suppression{Channel: "email", ExternalID: "crm-3"}, "sms", true, ""},
			{waypost.Suppression{Channel: "sms", ExternalID: "crm"}, "sms", true, ""},
			{waypost.Suppression{Channel: "sms", ExternalID: "crm-5"}, "", false, ""},
			{waypost.Suppression{}, "email", true, waypost.SkipConsent},
			{waypost.Suppression{}, "email", false, ""},
			{waypost.Suppression{}, `we"chat`, true, waypost.SkipConsent}, // that says nothing
		} {
			lead := f.reachable(t, i).LeadsID
			// Before its first attempt, early and late, and before its second one.
			var openings []delivery.Opening
			for range 4 {
				openings = append(openings, f.openingThrough(t, journey, lead, c.channel, c.needsConsent))
			}
			for _, o := range openings[2:] {
				first := o
				first.Channel, first.NeedsConsent = "", false
				f.open(t, first)
				f.record(t, f.retrying(o.Touchpoint, 1))
			}
			if c.suppressed.Channel != "" {
				f.suppress(t, c.suppressed)
			}
			for n, o := range openings {
				if n >= 2 {
					o = f.later(o)
				}
				early, is := f.skipUnwanted(t, openings[0], o)[o.Touchpoint], n%2 == 0
				if !is && c.reason != "" { // as if it had become so a moment ago
					continue
				}
				if c.reason != "" {
					f.wantUnwanted(t, o, early, c.reason)
				} else if s := f.open(t, o); s.Open == nil || early.Skipped != "" {
					t.Fatalf("%+v: opening %d is %+v", c, n, s)
				}
			}
		}
	}},
	{"at the moment of sending", func(t *testing.T, f *fixture) {
		// Some of a batch are unwanted; on PostgreSQL the others are opened by one statement.
		journey := f.journey(t)
		for _, attempt := range []int{1, 2} {
			var batch []delivery.Opening
			want := map[waypost.Touchpoint]string{}
			for i := range 4 {
				lead := f.reachable(t, 10*attempt+i)
				o := f.openingThrough(t, journey, lead.LeadsID, "sms", true)
				o.At = f.clock.Now()
				if attempt == 2 {
					f.open(t, o)
					f.record(t, f.retrying(o.Touchpoint, 1))
					o = f.later(o)
				}
				switch i {
				case 1:
					f.suppress(t, waypost.Suppression{Channel: "sms", ExternalID: *lead.ExternalID})
					want[o.Touchpoint] = waypost.SkipSuppressed
				case 2:
					lead.Consents = map[string]any{"sms": false}
					must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, lead.LeadsID, func(waypost.Lead) (waypost.LeadFields, []string, error) { return lead.LeadFields, nil, nil }))
					want[o.Touchpoint] = waypost.SkipConsent
				}
				batch = append(batch, o)
			}
			for i := range batch {
				batch[i].At = f.clock.Now()
			}
			opened := must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), batch))
			for _, o := range batch {
				if reason := want[o.Touchpoint]; reason != "" {
					f.wantUnwanted(t, o, opened[o.Touchpoint], reason)
				} else if s := opened[o.Touchpoint]; s.Open == nil || s.Open.Attempt != attempt || len(s.Body) == 0 {
					t.Fatalf("attempt %d: %+v", attempt, s)
				}
			}
		}
	}},
	{"skipped for good", func(t *testing.T, f *fixture) {
		// The process died before it could tell; the lead agrees by now.
		journey, lead := f.journey(t), f.reachable(t, 1)
		o := f.openingThrough(t, journey, lead.LeadsID, "email", true)
		f.wantUnwanted(t, o, f.skipUnwanted(t, o)[o.Touchpoint], waypost.SkipConsent)
		lead.Consents = map[string]any{"email": true}
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, lead.LeadsID, func(waypost.Lead) (waypost.LeadFields, []string, error) { return lead.LeadFields, nil, nil }))
		equal(t, "early", len(f.skipUnwanted(t, f.now(o))), 0)
		s := f.open(t, f.now(o))
		if s.Open != nil || s.Status != waypost.DeliveryCanceled || s.DeferredReason != waypost.SkipConsent {
			t.Fatalf("again: %+v", s)
		}
		// Nothing was sent, so there is nothing that conditions could ask about.
		results := must[map[string]map[string]waypost.TouchpointResult](t)(f.TouchpointResults(t.Context(), []string{o.EnrollmentID}))
		equal(t, "results", len(results), 0)
	}},
	{"cut off", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.reachable(t, 1)
		o := f.openingThrough(t, journey, lead.LeadsID, "sms", false)
		f.open(t, o)
		f.suppress(t, waypost.Suppression{Channel: "sms", Email: *lead.Email})
		// It is under way, so nobody skips it.
		equal(t, "under way", len(f.skipUnwanted(t, f.later(o))), 0)
		again := f.later(o)
		again.Interrupts = true
		f.wantUnwanted(t, o, f.skipUnwanted(t, again)[o.Touchpoint], waypost.SkipSuppressed)
		_, attempts, _ := f.delivery(t, o.Touchpoint)
		if len(attempts) != 1 || attempts[0].ErrorClass != waypost.ClassInterrupted {
			t.Fatalf("attempts %+v", attempts)
		}
	}},
	{"redelivery", func(t *testing.T, f *fixture) {
		journey, lead, hook := f.journey(t), f.reachable(t, 1), f.webhook(t)
		o := f.openingThrough(t, journey, lead.LeadsID, "sms", false)
		o.Delivery.WebhookID = hook
		f.open(t, o)
		f.record(t, f.retrying(o.Touchpoint, 1))
		sup := f.suppress(t, waypost.Suppression{Channel: "sms", Email: *lead.Email})
		f.wantUnwanted(t, o, f.skipUnwanted(t, f.later(o))[o.Touchpoint], waypost.SkipSuppressed)
		for _, suppressed := range []bool{true, false} {
			round := f.redeliver(t, o.Touchpoint)
			again := f.again(o.Touchpoint, f.sending(t, o.Touchpoint).Round, round.Attempts+1)
			again.Round = map[bool]int{true: 2, false: 3}[suppressed]
			again.Channel, again.Delivery.LeadsID = "sms", lead.LeadsID
			// To its journey it stays skipped, whatever becomes of the redelivery.
			before := f.inRound(t, o.Touchpoint, 1)
			equal(t, "first round", before.DeferredReason, waypost.SkipSuppressed)
			if !suppressed {
				equal(t, "opened", f.open(t, again).Open != nil, true)
				break
			}
			s := f.skipUnwanted(t, again)[o.Touchpoint]
			equal(t, "skipped", s.Skipped, waypost.SkipSuppressed)
			d, _, _ := f.delivery(t, o.Touchpoint)
			equal(t, "status", string(d.Status)+" "+d.DeferredReason, "canceled suppressed")
			equal(t, "timeline", len(f.timeline(t, o.EnrollmentID)), 2)
			ok(t, f.DeleteSuppression(t.Context(), scope, sup.ID, nil))
		}
	}},
	{"not in place of a pause", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.reachable(t, 1)
		f.suppress(t, waypost.Suppression{Channel: "sms", Email: *lead.Email})
		o := f.openingThrough(t, journey, lead.LeadsID, "sms", false)
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, o.EnrollmentID))
		equal(t, "told", len(f.skipUnwanted(t, o)), 0)
		if s := f.open(t, o); !s.Held || s.Skipped != "" {
			t.Fatalf("got %+v", s)
		}
	}},
	{"ahead", func(t *testing.T, f *fixture) {
		// What is sent ahead of its workflow writes nothing but attempts.
		journey, lead := f.journey(t), f.reachable(t, 1)
		f.suppress(t, waypost.Suppression{Channel: "sms", Email: *lead.Email})
		o := f.openingThrough(t, journey, lead.LeadsID, "sms", false)
		ahead := o
		ahead.Skipped = nil
		if s := f.open(t, ahead); !s.Held || s.Skipped != "" || len(f.timeline(t, o.EnrollmentID)) != 0 {
			t.Fatalf("got %+v", s)
		}
		equal(t, "delivery", f.sending(t, o.Touchpoint).Status, waypost.DeliveryStatus(""))
		f.wantUnwanted(t, o, f.open(t, o), waypost.SkipSuppressed)
	}},
	{"briefing", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		hook := must[waypost.Webhook](t)(f.CreateWebhook(t.Context(), scope, waypost.Webhook{
			Name: "sms", URL: "https://hooks.example.com/in", TimeoutMs: waypost.DefaultTimeoutMs, Retry: waypost.DefaultRetry(), Enabled: true, Channel: "sms", RequiresConsent: true,
		}))
		equal(t, "webhook", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, hook.ID)), hook)
		leads := []waypost.Lead{f.reachable(t, 0), f.reachable(t, 1), f.reachable(t, 2)}
		var ids []string
		for _, lead := range leads {
			ids = append(ids, f.openingThrough(t, journey, lead.LeadsID, "sms", true).EnrollmentID)
		}
		briefing := func(webhook string) map[int64]bool {
			b := must[delivery.Briefing](t)(f.Briefing(t.Context(), scope, webhook, waypost.ControlTargets{JourneyID: journey, EnrollmentIDs: ids}))
			for _, lead := range leads {
				equal(t, "lead", b.Leads[lead.LeadsID], lead)
			}
			return b.Suppressed
		}
		equal(t, "nobody", len(briefing(hook.ID)), 0)
		f.suppress(t, waypost.Suppression{Channel: "sms", MobilePhone: "+8613800138001"})
		f.suppress(t, waypost.Suppression{Channel: "email", MobilePhone: "+8613800138002"})
		equal(t, "one", briefing(hook.ID), map[int64]bool{leads[1].LeadsID: true})
		equal(t, "without a channel", len(briefing(f.webhook(t))), 0)
	}},
}

var testLeadTests = []test{
	{"stored", func(t *testing.T, f *fixture) {
		fields := waypost.LeadFields{Name: "Test", Test: true, Consents: map[string]any{"sms": true, "email": false}}
		made := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, nil))
		other := f.lead(t)
		equal(t, "read", must[waypost.Lead](t)(f.Lead(t.Context(), scope, made.LeadsID)), made)
		equal(t, "consents", made.Consents, fields.Consents)
		counts, failed := f.doImport(t, waypost.ImportUpsert,
			fmt.Sprintf(`{"leadsId":%d,"consents":{"sms":null,"wechat":true}}`, made.LeadsID), `{"name":"Imported","test":true,"consents":{"sms":false}}`,
			`{"name":"Faulty","consents":{"SMS":true}}`, `{"name":"Faulty","consents":{"sms":"yes"}}`, `{"name":"Faulty","test":"yes"}`)
		if len(failed) != 3 {
			t.Fatalf("%s: %v", counts, failed)
		}
		equal(t, "merged", must[waypost.Lead](t)(f.Lead(t.Context(), scope, made.LeadsID)).Consents, map[string]any{"email": false, "wechat": true})
		imported := f.byName(t, "Imported")
		equal(t, "imported", fmt.Sprint(imported.Test, imported.Consents), "true map[sms:false]")
		for _, sort := range waypost.LeadSorts {
			yes, no := f.leadsOfFilter(t, waypost.LeadFilter{Test: ptr(true)}, sort), f.leadsOfFilter(t, waypost.LeadFilter{Test: ptr(false)}, sort)
			equal(t, "test leads by "+string(sort), len(yes), 2)
			equal(t, "others by "+string(sort), no, []int64{other})
			equal(t, "both by "+string(sort), f.leadsOfFilter(t, waypost.LeadFilter{Test: ptr(true), Name: "Imp"}, sort), []int64{imported.LeadsID})
		}
	}},
	{"in no control group", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		var leads []int64
		for i := range 6 {
			leads = append(leads, must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada", Test: i < 2}, nil)).LeadsID)
		}
		for _, audience := range []waypost.Audience{{LeadsIDs: leads}, {Filter: &waypost.LeadFilter{}}} {
			l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{JourneyID: journey, Version: 1, AppID: "app_1", Audience: audience, ControlGroup: 0.9999999}))
			f.run(t, l.ID, 100)
			p := f.progressOf(t, l.ID)
			// The second one finds them in the journey.
			equal(t, "progress", [3]int{p.Enrolled + p.Skipped, p.HeldOut, p.Total}, [3]int{2, 4, 6})
		}
		equal(t, "statistics", *f.statistics(t, journey)[1], waypost.Counts{HeldOut: 8})
	}},
}
