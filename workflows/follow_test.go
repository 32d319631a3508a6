package workflows_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

// patched merges a patch into a lead, as the gateway does.
func (w *world) patched(lead int64, patch string) {
	w.t.Helper()
	_, err := w.store.UpdateLead(context.Background(), scope, lead, func(current waypost.Lead) (waypost.LeadFields, []string, error) {
		p, problems := waypost.ReadLeadPatch([]byte(patch))
		return p.Apply(current.LeadFields), nil, problems.Err("")
	})
	must(w.t, err)
}

// importedPatch updates leads by an import, all in one step.
func (w *world) importedPatch(leads []int64, patch string) {
	w.t.Helper()
	ctx := context.Background()
	im, err := w.store.CreateImport(ctx, scope, waypost.Import{AppID: "app_test", Mode: waypost.ImportUpdate, PhoneRegion: "CN"}, func(yield func(waypost.ImportRow, error) bool) {
		for i, lead := range leads {
			var row map[string]any
			must(w.t, json.Unmarshal([]byte(patch), &row))
			row["leadsId"] = lead
			data, err := json.Marshal(row)
			if !yield(waypost.ImportRow{Line: i + 1, Data: data}, err) {
				return
			}
		}
	})
	must(w.t, err)
	if im, err = w.store.ImportStep(ctx, im.ID); err != nil || im.Updated != len(leads) {
		w.t.Fatalf("%+v, %v", im, err)
	}
}

// change is what happens to the leads, so long after the start on Sunday, 1 March
// 2026, at 08:00 UTC.
type change struct {
	at    time.Duration
	patch string // or pause, resume
}

// paused pauses or resumes the journey, if that is the change.
func (w *world) paused(ctx context.Context, journeyID string, c change) bool {
	var err error
	switch c.patch {
	case "pause":
		_, err = w.store.PauseJourney(ctx, scope, journeyID)
	case "resume":
		_, err = w.store.ResumeJourney(ctx, scope, journeyID, true)
	default:
		return false
	}
	must(w.t, err)
	return true
}

// A wait for a date of the lead follows it.
func TestFollow(t *testing.T) {
	t.Parallel()
	const (
		hour, day = time.Hour, 24 * time.Hour
		yearly    = `"lead":"birthday","time":"09:00"`
	)
	for name, tt := range map[string]struct {
		wait    string // members of the node; the expiry with -72h if empty
		lead    string // fields of the lead; an expiry on 20 March at 08:00 if empty
		changes []change
		node    string        // where it goes on
		at      time.Duration // when
		last    string        // of the timeline of the wait
		notices int           // for each lead
	}{
		"not changed":                       {node: "remind", at: 16 * day, last: "waited: "},
		"something else":                    {changes: []change{{5 * day, `{"name":"Grace","customFields":{"score":1}}`}}, node: "remind", at: 16 * day, last: "waited: "},
		"written in another way":            {changes: []change{{5 * day, `{"customFields":{"expiry":"2026-03-20T09:00:00+01:00"}}`}}, node: "remind", at: 16 * day, last: "waited: ", notices: 1},
		"later":                             {changes: []change{{5 * day, `{"customFields":{"expiry":"2026-03-25T08:00:00Z"}}`}}, node: "remind", at: 21 * day, last: "waited: ", notices: 1},
		"later, twice":                      {changes: []change{{5 * day, `{"customFields":{"expiry":"2026-03-25T08:00:00Z"}}`}, {17 * day, `{"customFields":{"expiry":"2026-04-20T08:00:00Z"}}`}}, node: "remind", at: 47 * day, last: "waited: ", notices: 2},
		"earlier":                           {changes: []change{{5 * day, `{"customFields":{"expiry":"2026-03-10T08:00:00Z"}}`}}, node: "remind", at: 6 * day, last: "waited: ", notices: 1},
		"earlier, and back":                 {changes: []change{{2 * day, `{"customFields":{"expiry":"2026-03-10T08:00:00Z"}}`}, {3 * day, `{"customFields":{"expiry":"2026-03-20T08:00:00Z"}}`}}, node: "remind", at: 16 * day, last: "waited: ", notices: 2},
		"earlier, so that it comes at once": {changes: []change{{5 * day, `{"customFields":{"expiry":"2026-03-09T08:00:00.500Z"}}`}}, node: "remind", at: 5*day + time.Second, last: "waited: ", notices: 1},
		"earlier than now":                  {changes: []change{{5 * day, `{"customFields":{"expiry":"2026-03-07T08:00:00Z"}}`}}, node: "late", at: 5*day + time.Second, last: "skipped: customFields.expiry -72h: in the past", notices: 1},
		"earlier than the wait":             {changes: []change{{5 * day, `{"customFields":{"expiry":"2026-03-02T08:00:00Z"}}`}}, node: "late", at: 5*day + time.Second, last: "skipped: customFields.expiry -72h: in the past", notices: 1},
		"cleared":                           {changes: []change{{5 * day, `{"customFields":{"expiry":null}}`}}, node: "late", at: 5*day + time.Second, last: "skipped: customFields.expiry -72h: missing value", notices: 1},
		"all fields cleared":                {changes: []change{{5 * day, `{"customFields":null}`}}, node: "late", at: 5*day + time.Second, last: "skipped: customFields.expiry -72h: missing value", notices: 1},
		"made a date that is none":          {changes: []change{{5 * day, `{"customFields":{"expiry":"31/12/2026"}}`}}, node: "late", at: 5*day + time.Second, last: "skipped: customFields.expiry -72h: invalid value", notices: 1},
		"too far":                           {changes: []change{{5 * day, `{"customFields":{"expiry":"2126-04-01"}}`}}, node: "late", at: 5*day + time.Second, last: "skipped: customFields.expiry -72h: more than 100 years ahead", notices: 1},
		"later in a pause":                  {changes: []change{{2 * day, "pause"}, {5 * day, `{"customFields":{"expiry":"2026-03-25T08:00:00Z"}}`}, {18 * day, "resume"}}, node: "remind", at: 21 * day, last: "waited: ", notices: -1},
		"come in a pause":                   {changes: []change{{2 * day, "pause"}, {5 * day, `{"customFields":{"expiry":"2026-03-12T08:00:00Z"}}`}, {18 * day, "resume"}}, node: "remind", at: 18*day + time.Second, last: "waited: ", notices: -1},
		"cleared in a pause":                {changes: []change{{2 * day, "pause"}, {5 * day, `{"customFields":{"expiry":null}}`}, {18 * day, "resume"}}, node: "late", at: 18*day + time.Second, last: "skipped: customFields.expiry -72h: missing value", notices: -1},

		"updated again":            {wait: `"lead":"updatedAt","offset":"P30D"`, changes: []change{{5 * day, `{"name":"Grace"}`}, {20 * day, `{"name":"Ada"}`}}, node: "remind", at: 50 * day, last: "waited: "},
		"of when it was created":   {wait: `"lead":"createdAt","offset":"P30D"`, changes: []change{{5 * day, `{"name":"Grace"}`}}, node: "remind", at: 30 * day, last: "waited: "},
		"the zone, earlier":        {wait: `"lead":"customFields.expiry"`, lead: `{"customFields":{"expiry":"2026-03-10"}}`, changes: []change{{5 * day, `{"customFields":{"timezone":"Asia/Shanghai"}}`}}, node: "remind", at: 8*day + 8*hour, last: "waited: ", notices: 1},
		"the zone, later":          {wait: `"lead":"customFields.expiry"`, lead: `{"customFields":{"expiry":"2026-03-10"}}`, changes: []change{{5 * day, `{"customFields":{"timezone":"America/New_York"}}`}}, node: "remind", at: 8*day + 20*hour, last: "waited: ", notices: 1},
		"the zone of a time":       {wait: `"time":"12:00"`, changes: []change{{hour, `{"customFields":{"timezone":"America/New_York"}}`}}, node: "remind", at: 9 * hour, last: "waited: ", notices: 1},
		"a zone that is not asked": {wait: `"time":"12:00","timezone":"UTC"`, changes: []change{{hour, `{"customFields":{"timezone":"America/New_York"}}`}}, node: "remind", at: 4 * hour, last: "waited: "},
		"the zone after the clock": {wait: `"time":"12:00"`, lead: `{"customFields":{"timezone":"America/New_York"}}`, changes: []change{{5 * hour, `{"customFields":{"timezone":null}}`}}, node: "remind", at: 28 * hour, last: "waited: ", notices: 1},

		"a birthday, later":          {wait: yearly, lead: `{"birthday":"1990-03-10"}`, changes: []change{{5 * day, `{"birthday":"1990-03-20"}`}}, node: "remind", at: 19*day + hour, last: "waited: ", notices: 1},
		"a birthday, earlier":        {wait: yearly, lead: `{"birthday":"1990-03-20"}`, changes: []change{{5 * day, `{"birthday":"1990-03-10"}`}}, node: "remind", at: 9*day + hour, last: "waited: ", notices: 1},
		"a birthday, of next year":   {wait: yearly, lead: `{"birthday":"1990-03-20"}`, changes: []change{{5 * day, `{"birthday":"1990-03-04"}`}}, node: "remind", at: 368*day + hour, last: "waited: ", notices: 1},
		"a birthday, cleared":        {wait: yearly, lead: `{"birthday":"1990-03-20"}`, changes: []change{{5 * day, `{"birthday":null}`}}, node: "late", at: 5*day + time.Second, last: "skipped: birthday: missing value", notices: 1},
		"a birthday, and a name":     {wait: yearly, lead: `{"birthday":"1990-03-20"}`, changes: []change{{19*day + hour, `{"name":"Grace"}`}}, node: "remind", at: 19*day + hour, last: "waited: "},
		"a date that becomes yearly": {wait: `"lead":"customFields.expiry"`, changes: []change{{5 * day, `{"customFields":{"expiry":"--04-01"}}`}}, node: "remind", at: 30*day + 16*hour, last: "waited: ", notices: 1},
	} {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				wait := cmp.Or(tt.wait, `"lead":"customFields.expiry","offset":"-72h"`)
				late := ""
				if strings.Contains(wait, "lead") {
					wait, late = wait+`,"onMissed":"late"`, `,{"id":"late","type":"touchpoint","webhook":"WEBHOOK"}`
				}
				v := w.publish(`{"name":"Renewal","start":"renewal","nodes":[
					{"id":"renewal","type":"waitUntil","next":"remind",` + wait + `},
					{"id":"remind","type":"touchpoint","webhook":"WEBHOOK"}` + late + `]}`)
				var leads []int64
				var enrolled []waypost.Enrollment
				for range n {
					lead := w.lead(map[string]any{"expiry": "2026-03-20T08:00:00Z"})
					if tt.lead != "" {
						w.patched(lead, tt.lead)
					}
					leads = append(leads, lead)
					enrolled = append(enrolled, w.enter(v, lead))
				}
				start := w.env.Now()
				for i, c := range tt.changes {
					w.at(c.at, func(ctx context.Context) {
						switch {
						case w.paused(ctx, v.JourneyID, c):
						case i%2 == 0 && n > 1:
							w.importedPatch(leads, c.patch)
						default:
							for _, lead := range leads {
								w.patched(lead, c.patch)
							}
						}
					})
				}
				w.run()
				for _, e := range enrolled {
					_, attempts := w.delivery(e, tt.node)
					if late := attempts[0].At.Sub(start) - tt.at; late < -time.Second || late > 2*time.Second {
						t.Errorf("it went on %s after the start, want %s", attempts[0].At.Sub(start), tt.at)
					}
					if lines := w.reasons(e, "renewal"); lines[len(lines)-1] != tt.last {
						t.Errorf("the timeline says %q, want %q", lines, tt.last)
					}
				}
				if len(w.receiver.posts) != n {
					t.Errorf("%d messages, want %d", len(w.receiver.posts), n)
				}
				if tt.notices >= 0 && w.noticed != n*tt.notices {
					t.Errorf("%d notices, want %d", w.noticed, n*tt.notices)
				}
			})
		}
	}
}

// The workflow of a waitFor is told of the events that the condition asks for, and of no others.
func TestWaitForItsEvents(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]struct {
		word    string
		noticed int
	}{
		`events(\"purchase\").exists(e, e.amount > 5)`:                                {"matched", 2},
		`lead.customFields.plan == \"pro\"`:                                           {"timedOut", 0},
		`events(\"refund\").count() > 0`:                                              {"timedOut", 0},
		`events(\"refund\").count() == 0 && now > lead.createdAt + duration(\"90m\")`: {"matched", 2},
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			e := w.enroll(w.publish(`{"name":"Waiting","start":"wait","nodes":[{"id":"wait","type":"waitFor","when":"`+condition+`","timeout":"24h"}]}`), 1)[0]
			for i, amount := range []int{1, 9} {
				w.at(time.Duration(i+1)*time.Hour, w.event(fmt.Sprint("e", i), e.LeadsID, amount))
			}
			w.run()
			if _, lines := w.timeline(e); !slices.Contains(lines, "wait "+want.word) || w.noticed != want.noticed {
				t.Errorf("%q, told %d times, want %+v", lines, w.noticed, want)
			}
		})
	}
}

// A waitFor goes on when its condition is true: at once, when the lead changes, or when an
// event comes that makes it look; and when its time is over.
func TestWaitFor(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, tt := range map[string]struct {
		before  string // a patch
		changes []change
		event   time.Duration // when one comes
		word    string
		reason  string
		at      time.Duration
	}{
		"true at once":         {before: `{"customFields":{"plan":"pro"}}`, word: "matched thanks", reason: "matched: lead.customFields.plan == \"pro\" → true", at: 0},
		"by a change":          {before: `{"customFields":{"plan":"free"}}`, changes: []change{{2 * hour, `{"remark":"x"}`}, {3 * hour, `{"customFields":{"plan":"pro"}}`}}, word: "matched thanks", at: 3 * hour},
		"an event has it look": {before: `{"customFields":{"plan":"free"}}`, event: 6 * hour, word: "matched thanks", at: 6 * hour},
		"as its time is over":  {before: `{"customFields":{"plan":"free"}}`, word: "matched thanks", at: 24 * hour},
		"never": {
			before: `{"customFields":{"plan":"free"}}`, changes: []change{{20 * hour, `{"customFields":{"plan":"basic"}}`}}, word: "timedOut sorry",
			reason: "timedOut: lead.customFields.plan == \"pro\" → false, now > lead.updatedAt + duration(\"5h\") → false", at: 24 * hour,
		},
		"while paused": {
			before: `{"customFields":{"plan":"free"}}`, changes: []change{{hour, "pause"}, {2 * hour, `{"customFields":{"plan":"pro"}}`}, {4 * hour, "resume"}}, word: "matched thanks", at: 4 * hour,
		},
	} {
		for _, n := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				v := w.publish(`{"name":"Waiting","start":"wait","nodes":[
					{"id":"wait","type":"waitFor","when":"lead.customFields.plan == 'pro' || now > lead.updatedAt + duration('5h')","timeout":"24h","next":"thanks","onTimeout":"sorry"},
					{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"},
					{"id":"sorry","type":"touchpoint","webhook":"WEBHOOK"}]}`)
				enrolled := w.enroll(v, n)
				start := w.env.Now()
				for _, e := range enrolled {
					w.patched(e.LeadsID, tt.before)
				}
				for _, c := range tt.changes {
					w.at(c.at, func(ctx context.Context) {
						if w.paused(ctx, v.JourneyID, c) {
							return
						}
						for _, e := range enrolled {
							w.patched(e.LeadsID, c.patch)
						}
					})
				}
				if tt.event > 0 {
					for i, e := range enrolled {
						w.at(tt.event, w.event(fmt.Sprint("e", i), e.LeadsID, 1))
					}
				}
				w.run()
				for _, e := range enrolled {
					status, lines := w.timeline(e)
					if status != waypost.EnrollmentCompleted || !slices.Contains(lines, "wait "+tt.word) {
						t.Fatalf("%s by way of %q, want %q", status, lines, tt.word)
					}
					if reasons := w.reasons(e, "wait"); tt.reason != "" && reasons[len(reasons)-1] != tt.reason {
						t.Errorf("the timeline says %q", reasons)
					}
					_, attempts := w.delivery(e, strings.Fields(tt.word)[1])
					if late := attempts[0].At.Sub(start) - tt.at; late < 0 || late > 2*time.Minute {
						t.Errorf("it went on %s after the start, want %s", attempts[0].At.Sub(start), tt.at)
					}
				}
			})
		}
	}
}
