package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/segment"
)

func (f *fixture) segment(t testing.TB, when string) waypost.Segment {
	t.Helper()
	return must[waypost.Segment](t)(f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "some", When: when}))
}

// journeyWith makes a journey with a published version.
func (f *fixture) journeyWith(t testing.TB, definition string) string {
	t.Helper()
	j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Welcome", []byte(definition)))
	_, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "Welcome", Hash: definition, Definition: []byte(definition)})
	ok(t, err)
	return j.ID
}

func (f *fixture) members(t testing.TB, id string) (ids []int64) {
	t.Helper()
	for page := (waypost.Page{Limit: 7}); ; page.After = fmt.Sprint(ids[len(ids)-1]) {
		leads := must[[]waypost.Lead](t)(f.SegmentMembers(t.Context(), scope, id, page))
		for _, l := range leads {
			ids = append(ids, l.LeadsID)
		}
		if len(leads) < page.Limit {
			return ids
		}
	}
}

// launchTo launches to an audience and enrolls it; it returns who was enrolled.
func (f *fixture) launchTo(t testing.TB, l waypost.Launch) waypost.Launch {
	t.Helper()
	return must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, l))
}

const hello = `{"name":"Welcome","nodes":[{"id":"hello"}]}`

var segmentTests = []test{
	{"are kept", func(t *testing.T, f *fixture) {
		g := f.segment(t, `lead.gender == 1`)
		if !waypost.IsID(waypost.PrefixSegment, g.ID) {
			t.Fatalf("the id is %q", g.ID)
		}
		equal(t, "segment", must[waypost.Segment](t)(f.Segment(t.Context(), scope, g.ID)), g)
		f.clock.Advance(time.Second)
		other := f.segment(t, `lead.gender == 2`)
		equal(t, "list", must[[]waypost.Segment](t)(f.ListSegments(t.Context(), scope, waypost.Page{})), []waypost.Segment{other, g})
		equal(t, "page", must[[]waypost.Segment](t)(f.ListSegments(t.Context(), scope, waypost.Page{After: other.ID})), []waypost.Segment{g})
		want := waypost.Segment{ID: g.ID, Name: "women", When: `lead.gender == 0`, CreatedAt: g.CreatedAt, UpdatedAt: f.clock.Now()}
		equal(t, "replaced", must[waypost.Segment](t)(f.ReplaceSegment(t.Context(), scope, g.ID, waypost.Segment{Name: "women", When: `lead.gender == 0`}, nil)), want)
		equal(t, "afterwards", must[waypost.Segment](t)(f.Segment(t.Context(), scope, g.ID)), want)
		wantCode(t, f.CheckCondition(t.Context(), scope, fmt.Sprintf(`inSegment("%s")`, g.ID)), "")
		for _, sc := range foreign {
			_, err := f.Segment(t.Context(), sc, g.ID)
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.ReplaceSegment(t.Context(), sc, g.ID, g, nil)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DeleteSegment(t.Context(), sc, g.ID, nil), waypost.CodeNotFound)
			_, err = f.CountSegment(t.Context(), sc, g.ID, 5)
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.SegmentMembers(t.Context(), sc, g.ID, waypost.Page{})
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.CountCondition(t.Context(), sc, fmt.Sprintf(`inSegment("%s")`, g.ID), 5)
			wantCode(t, err, waypost.CodeBadRequest)
			wantCode(t, f.CheckCondition(t.Context(), sc, fmt.Sprintf(`inSegment("%s")`, g.ID)), waypost.CodeBadRequest)
			_, err = f.CreateSegment(t.Context(), sc, waypost.Segment{Name: "x", When: fmt.Sprintf(`inSegment("%s")`, g.ID)})
			wantCode(t, err, waypost.CodeBadRequest)
		}
		refusal := waypost.Errorf(waypost.CodePreconditionFailed, "", "no")
		_, err := f.ReplaceSegment(t.Context(), scope, g.ID, g, func(waypost.Segment) error { return refusal })
		wantCode(t, err, waypost.CodePreconditionFailed)
		wantCode(t, f.DeleteSegment(t.Context(), scope, g.ID, func(waypost.Segment) error { return refusal }), waypost.CodePreconditionFailed)
		ok(t, f.DeleteSegment(t.Context(), scope, g.ID, nil))
		wantCode(t, f.DeleteSegment(t.Context(), scope, g.ID, nil), waypost.CodeNotFound)
	}},
	{"so many of a stage", func(t *testing.T, f *fixture) {
		somePass(t, atOnce(waypost.MaxSegments+20, func(int) error {
			_, err := f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "some", When: "lead.gender == 1"})
			return err
		}), waypost.MaxSegments, waypost.CodeConflict)
	}},
	{"one is named as it is deleted", func(t *testing.T, f *fixture) {
		for range 20 {
			g := f.segment(t, "lead.gender == 1")
			errs := atOnce(2, func(i int) error {
				if i == 0 {
					return f.DeleteSegment(t.Context(), scope, g.ID, nil)
				}
				_, err := f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "x", When: fmt.Sprintf(`inSegment("%s")`, g.ID)})
				return err
			})
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("it is deleted: %v; it is named: %v", errs[0], errs[1])
			}
		}
	}},
	{"are refused as they are written", func(t *testing.T, f *fixture) {
		refused := func(err error, words string) {
			t.Helper()
			wantCode(t, err, waypost.CodeBadRequest)
			if !strings.Contains(err.Error(), words) {
				t.Fatalf("%v does not say %q", err, words)
			}
		}
		a, b := f.segment(t, `lead.gender == 1`), waypost.Segment{}
		b = f.segment(t, fmt.Sprintf(`inSegment("%s")`, a.ID))
		_, err := f.ReplaceSegment(t.Context(), scope, a.ID, waypost.Segment{Name: "a", When: fmt.Sprintf(`lead.gender == 1 || inSegment("%s")`, b.ID)}, nil)
		refused(err, "circle: "+a.ID+", "+b.ID+", "+a.ID)
		_, err = f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "x", When: fmt.Sprintf(`entered("%s")`, waypost.NewID(waypost.PrefixJourney, f.clock.Now()))})
		refused(err, "there is no journey")
		_, err = f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "x", When: fmt.Sprintf(`delivered("%s", "helo")`, f.journeyWith(t, hello))})
		refused(err, "no node helo")
		// What names it would be too deep.
		last := b
		for range segment.MaxDepth - 2 {
			last = f.segment(t, fmt.Sprintf(`inSegment("%s")`, last.ID))
		}
		_, err = f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "x", When: fmt.Sprintf(`inSegment("%s")`, last.ID)})
		refused(err, "in a row")
		c := f.segment(t, `lead.gender == 2`)
		_, err = f.ReplaceSegment(t.Context(), scope, a.ID, waypost.Segment{Name: "a", When: fmt.Sprintf(`inSegment("%s")`, c.ID)}, nil)
		refused(err, "in a row")
		// Two that would make a circle together.
		errs := atOnce(2, func(i int) error {
			pair := []waypost.Segment{a, c}
			_, err := f.ReplaceSegment(t.Context(), scope, pair[i].ID, waypost.Segment{Name: "x", When: fmt.Sprintf(`!inSegment("%s")`, pair[1-i].ID)}, nil)
			return err
		})
		if errs[0] == nil && errs[1] == nil {
			t.Fatal("two segments name each other")
		}
	}},
	{"stay while they are used", func(t *testing.T, f *fixture) {
		g := f.segment(t, `lead.gender == 1`)
		inUse := func(by string) {
			t.Helper()
			err := f.DeleteSegment(t.Context(), scope, g.ID, nil)
			wantCode(t, err, waypost.CodeConflict)
			if !strings.Contains(err.Error(), by) {
				t.Fatalf("%v does not name %s", err, by)
			}
		}
		other := f.segment(t, fmt.Sprintf(`inSegment("%s")`, g.ID))
		inUse("segment " + other.ID)
		ok(t, f.DeleteSegment(t.Context(), scope, other.ID, nil))

		draft := fmt.Sprintf(`{"name":"Welcome","nodes":[{"id":"b","type":"branch","cases":[{"when":"inSegment(\"%s\")"}]}]}`, g.ID)
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Welcome", []byte(draft)))
		inUse("journey " + j.ID)
		_, err := f.UpdateJourneyDraft(t.Context(), scope, j.ID, "Welcome", []byte(`{}`), nil)
		ok(t, err)
		journey := f.journey(t)
		l := f.launchTo(t, waypost.Launch{JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{Segment: g.ID}})
		inUse("launch " + l.ID)
		for {
			if step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 10)); step.Done {
				break
			}
		}
		recurring := f.launchTo(t, waypost.Launch{
			JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{Segment: g.ID}, Schedule: &waypost.Schedule{Cron: "0 9 * * 1", Timezone: "UTC"},
		})
		inUse("launch " + recurring.ID)
		_, err = f.CancelLaunch(t.Context(), scope, recurring.ID)
		ok(t, err)
		ok(t, f.DeleteSegment(t.Context(), scope, g.ID, nil))

		_, err = f.CreateLaunch(t.Context(), scope, waypost.Launch{JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{Segment: g.ID}})
		wantCode(t, err, waypost.CodeBadRequest)
		_, _, err = f.SampleAudience(t.Context(), scope, waypost.Audience{Segment: g.ID}, f.clock.Now(), 5)
		wantCode(t, err, waypost.CodeBadRequest)
		_, err = f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "Welcome", Hash: "1", Definition: []byte(draft)})
		wantCode(t, err, waypost.CodeBadRequest)
		h := f.segment(t, `lead.gender == 1`)
		published := f.journeyWith(t, strings.ReplaceAll(draft, g.ID, h.ID))
		_, err = f.UpdateJourneyDraft(t.Context(), scope, published, "Welcome", []byte(`{}`), nil)
		ok(t, err)
		g = h
		inUse("journey " + published)
	}},
	{"read every field", func(t *testing.T, f *fixture) {
		one := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada", Test: true, Consents: map[string]any{"sms": true}}, nil)).LeadsID
		two := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Bob", Consents: map[string]any{"sms": false}}, nil)).LeadsID
		for when, want := range map[string][]int64{
			`lead.test`: {one}, `!lead.test`: {two}, `lead.consents.sms == true`: {one}, `lead.name == "Bob" && !lead.consents.sms`: {two}, `lead.size() > 3`: {one, two},
		} {
			equal(t, when, f.members(t, f.segment(t, when).ID), want)
		}
	}},
	{"are audiences", func(t *testing.T, f *fixture) {
		for i := range 20 {
			lead := waypost.LeadFields{Name: fmt.Sprint("Lead ", i), Gender: ptr(int64(i % 2))}
			must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, lead, nil))
		}
		for _, when := range []string{`lead.gender == 1`, `lead.gender == 1 && lead.name.size() > 0`} {
			g, journey := f.segment(t, when), f.journey(t)
			leads, total, err := f.SampleAudience(t.Context(), scope, waypost.Audience{Segment: g.ID}, f.clock.Now(), 3)
			ok(t, err)
			equal(t, "sample", []int{total, len(leads)}, []int{10, 3})
			l := f.launchTo(t, waypost.Launch{JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{Segment: g.ID}})
			equal(t, "audience", f.launchOf(t, l.ID).Audience, waypost.Audience{Segment: g.ID})
			equal(t, "first step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 4)), waypost.LaunchStep{Enrolled: 4})
			equal(t, "total", f.launchOf(t, l.ID).Progress.Total, 10)
			late := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Late", Gender: ptr(int64(1))}, nil)).LeadsID
			equal(t, "last step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 40)), waypost.LaunchStep{Enrolled: 6, Done: true})
			ok(t, f.DeleteLead(t.Context(), scope, late, nil))
			recurring := f.launchTo(t, waypost.Launch{
				JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{Segment: g.ID}, Schedule: &waypost.Schedule{Cron: "0 9 * * 1", Timezone: "UTC"},
			})
			equal(t, "audience of an occurrence", f.launchOf(t, f.occurrence(t, recurring.ID)).Audience, waypost.Audience{Segment: g.ID})
		}
	}},
	{"have few and many members", func(t *testing.T, f *fixture) {
		for i := range 30 {
			lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada"}, nil)).LeadsID
			for j := range i % 4 {
				_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(i, " ", j), Name: "buy", LeadsID: lead, Properties: map[string]any{"n": float64(j)}})
				ok(t, err)
			}
			f.clock.Advance(time.Hour)
		}
		for when, n := range map[string]int{
			`events("buy").count() >= 2`: 14, `events("buy").count() == 0`: 8, `events("buy").last().n == 2`: 7,
			`events("buy", duration("5h")).count() > 0`: 3, `events("buy").map(e, e.n).exists(n, n == 1)`: 14,
		} {
			c := must[waypost.SegmentCount](t)(f.CountSegment(t.Context(), scope, f.segment(t, when).ID, 5))
			equal(t, when, []any{c.Count, c.At, len(c.Sample)}, []any{n, f.clock.Now(), min(5, n)})
		}
	}},
	{"agree with SQL", agreeWithSQL},
}

// agreeWithSQL draws leads with events and conditions, and compares the two ways to read
// a segment.
func agreeWithSQL(t *testing.T, f *fixture) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	journeys := []string{f.journeyWith(t, hello), f.journeyWith(t, hello)}
	leads := drawLeads(t, f, r, journeys)
	whens := map[string]string{}
	verdicts := map[string][]bool{} // by segment, beside leads
	var ids []string
	d := draw{r, journeys, nil}
	exact, some := 0, 0
	for range 140 {
		when := d.condition(3)
		g, err := f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "drawn", When: when})
		if waypost.CodeOf(err) == waypost.CodeBadRequest { // too deep, or too large
			continue
		}
		ok(t, err)
		whens[g.ID] = when
		seg, err := segment.Compile(g.ID, whens)
		ok(t, err)
		if seg.Exact() {
			exact++
		}
		now := f.clock.Now().Truncate(time.Microsecond) // as the database has it
		records := must[map[int64]*waypost.LeadRecord](t)(f.LeadRecords(t.Context(), scope, mapped(leads, idOf), seg.Needs(true), now))
		verdict := make([]bool, len(leads))
		var want []int64
		for i, lead := range leads {
			record := records[lead.LeadsID]
			for _, named := range seg.Needs(true).Segments {
				record.Segments[named] = verdicts[named][i]
			}
			if verdict[i] = seg.Has(t.Context(), &lead, record, now, true); verdict[i] {
				want = append(want, lead.LeadsID)
			}
		}
		verdicts[g.ID] = verdict
		if got := f.members(t, g.ID); !slices.Equal(got, want) {
			t.Fatalf("%s (exact: %t, %v):\n got %v\nwant %v", when, seg.Exact(), seg.Where(), got, want)
		}
		if c := must[waypost.SegmentCount](t)(f.CountSegment(t.Context(), scope, g.ID, 1)); c.Count != len(want) {
			t.Fatalf("%s (exact: %t, %v): counted %d, want %d", when, seg.Exact(), seg.Where(), c.Count, len(want))
		}
		if c := must[waypost.SegmentCount](t)(f.CountCondition(t.Context(), scope, when, 1)); c.Count != len(want) {
			t.Fatalf("%s: counted %d that meet the condition, want %d", when, c.Count, len(want))
		}
		if len(want) > 0 && len(want) < len(leads) {
			some++
		}
		if ids = append(ids, g.ID); len(ids)%5 == 0 {
			d.segments = append(d.segments, g.ID)
		}
	}
	if len(ids) < 80 || exact < 5 || len(ids)-exact < 15 || some < 25 {
		t.Fatalf("of %d conditions SQL has answered %d, and %d have divided the leads: that says little", len(ids), exact, some)
	}
}

func idOf(l waypost.Lead) int64 { return l.LeadsID }

func mapped[T, V any](list []T, of func(T) V) (out []V) {
	for _, e := range list {
		out = append(out, of(e))
	}
	return out
}

var (
	drawnTexts   = []string{"a", "Ada", "ada", "Zoë", "张三", "x%_", `q"'\`, "10", "true", "éa", "a b", "-", "𝕏y", "<&>", "abcdefghijklmnopqrstuvwxyz"}
	drawnNumbers = []float64{0, 1, 2, -1, 2.5, 0.1, 1e15, 9007199254740992, -3, 10}
	drawnNames   = []string{"plan", "vip", "obj", `o"k`, "x.y", "张", "<b>"}
	drawnEvents  = []string{"buy", "see"}

	drawnBirthdays = []string{"1926-12-31", "1990-02-28", "1992-02-29", "--02-29", "--12-31", "2000-03-15", "1999-03-14"}
)

// drawLeads makes leads whose fields are set or not, with events, entries and deliveries.
func drawLeads(t *testing.T, f *fixture, r *rand.Rand, journeys []string) (leads []waypost.Lead) {
	maybe := func(s string) *string {
		if r.IntN(3) == 0 {
			return nil
		}
		return &s
	}
	some := func(n int64) *int64 {
		if r.IntN(3) == 0 {
			return nil
		}
		return &n
	}
	text := func() string { return drawnTexts[r.IntN(len(drawnTexts))] }
	for i := range 60 {
		fields := waypost.LeadFields{
			Name: text(), Gender: some(r.Int64N(3)), Region: some([]int64{1, 2, 3, 1 << 53, 1<<53 + 1, -1 << 62}[r.IntN(6)]), LeadsGroup: some(r.Int64N(5) - 2),
			Email: maybe([]string{text(), "Ada@Example.com", "ada@example.COM", "Zoë@Straße.example"}[r.IntN(4)]), Company: maybe(text()), Remark: maybe(strings.Repeat(text(), 1+r.IntN(50))), Birthday: maybe(drawnBirthdays[r.IntN(len(drawnBirthdays))]),
			MobilePhone: drawnTexts[:r.IntN(3)],
		}
		for _, name := range drawnNames {
			var value any
			switch r.IntN(5) {
			case 0:
				value = text()
			case 1:
				value = drawnNumbers[r.IntN(len(drawnNumbers))]
			case 2:
				value = r.IntN(2) == 0
			case 3:
				value = map[string]any{"k": text(), "n": nil}
			default:
				continue
			}
			if fields.CustomFields == nil {
				fields.CustomFields = map[string]any{}
			}
			fields.CustomFields[name] = value
		}
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, nil))
		leads = append(leads, lead)
		for j := range r.IntN(8) {
			properties := map[string]any{}
			if r.IntN(4) > 0 {
				properties["amount"] = drawnNumbers[r.IntN(len(drawnNumbers))]
			}
			if r.IntN(2) > 0 {
				properties["kind"] = text()
			}
			_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(i, " ", j), Name: drawnEvents[r.IntN(2)], LeadsID: lead.LeadsID, Properties: properties})
			ok(t, err)
			f.clock.Advance(time.Duration(r.Int64N(int64(10*time.Minute))) + 1)
		}
		for _, journey := range journeys {
			if r.IntN(2) == 0 {
				continue
			}
			e := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead.LeadsID, AppID: "app_1"}, waypost.Reentry{}))
			if r.IntN(2) == 0 {
				key, opening := f.touchpoint(t, e.ID, journey)
				f.open(t, opening)
				record := f.succeeded(key, 1)
				if r.IntN(2) == 0 {
					record = f.failed(key, 1)
				}
				f.record(t, record)
			}
		}
	}
	return leads
}

// draw draws conditions.
type draw struct {
	r                  *rand.Rand
	journeys, segments []string
}

func (d *draw) one(list ...string) string { return list[d.r.IntN(len(list))] }

func (d *draw) text() string { return fmt.Sprintf("%q", drawnTexts[d.r.IntN(len(drawnTexts))]) }

func (d *draw) number() string { return fmt.Sprint(drawnNumbers[d.r.IntN(len(drawnNumbers)-4)]) }

func (d *draw) op() string { return d.one("==", "!=", "<", "<=", ">", ">=") }

func (d *draw) constant() string {
	switch d.r.IntN(6) {
	case 0:
		return d.one("null", "true", "false", `timestamp("2026-03-15T00:00:00.5Z")`)
	case 1, 2:
		return d.number()
	}
	return d.text()
}

func (d *draw) field() string {
	if d.r.IntN(2) == 0 {
		return fmt.Sprintf("lead.customFields[%q]", drawnNames[d.r.IntN(len(drawnNames))])
	}
	return "lead." + d.one("name", "email", "company", "remark", "birthday", "gender", "region", "leadsGroup", "leadsId", "createdAt", "qq", "mobilePhone")
}

func (d *draw) events() string {
	name := drawnEvents[d.r.IntN(2)]
	if d.r.IntN(2) == 0 {
		return fmt.Sprintf("events(%q)", name)
	}
	return fmt.Sprintf("events(%q, duration(%q))", name, d.one("1h", "3h", "10h", "20h", "1500ms"))
}

func (d *draw) null() string {
	of := d.one(d.field(), "lead.customFields.obj.k", "lead.customFields.obj.n", "lead.customFields.obj.k.x", "lead.consents.sms", "lead.mobilePhone", "lead.mobilePhone[1]", "lead.region")
	if strings.HasSuffix(of, "]") || d.r.IntN(2) == 0 {
		return of + d.one(" == ", " != ") + "null"
	}
	return d.one("", "!") + "has(" + of + ")"
}

func (d *draw) condition(depth int) string {
	if depth > 0 {
		switch d.r.IntN(8) {
		case 0, 1:
			return "(" + d.condition(depth-1) + " && " + d.condition(depth-1) + ")"
		case 2, 3:
			return "(" + d.condition(depth-1) + " || " + d.condition(depth-1) + ")"
		case 4:
			return "!(" + d.condition(depth-1) + ")"
		case 5:
			return "(" + d.condition(depth-1) + " ? " + d.condition(depth-1) + " : " + d.condition(depth-1) + ")"
		}
	}
	switch d.r.IntN(27) {
	case 22:
		return d.null()
	case 23:
		email := d.one(`"ADA@EXAMPLE.COM"`, `"ada@example.com"`, `"zoë@strasse.EXAMPLE"`, `"ada"`)
		return d.one(
			"lead.email "+d.one("==", "!=")+" "+email, email+" == lead.email", "lead.email in ["+email+", "+d.text()+"]",
			"lead.email."+d.one("startsWith", "endsWith", "contains")+d.one(`("ADA")`, `("e.com")`, `("@EX")`, `("STRASSE.example")`),
		)
	case 24:
		return "lead.birthday " + d.op() + " " + d.one(`"1990-02-28"`, `"--02-29"`, `"1995-01-01"`)
	case 0, 1, 2:
		return d.field() + " " + d.op() + " " + d.constant()
	case 3:
		return d.constant() + " " + d.op() + " " + d.field()
	case 4:
		return d.field() + " in [" + d.constant() + ", " + d.constant() + "]"
	case 5:
		return d.field() + "." + d.one("startsWith", "endsWith", "contains") + "(" + d.one(d.text(), d.text(), `""`) + ")"
	case 6:
		return fmt.Sprintf("lead.customFields[%q]", "vip")
	case 7:
		return d.one("has(lead.customFields.plan)", `"vip" in lead.customFields`, "has(lead.customFields.vip)", "has(lead.customFields.vip) == true", "has(lead.customFields.plan) in [true]", "has(lead.email)", "true", "false")
	case 8:
		return d.one("lead.createdAt", "timestamp(lead.updatedAt)", "lead.updatedAt") + " " + d.op() + " now - duration(" + d.one(`"2h"`, `"5h30m"`, `"P1D"`) + ")"
	case 9, 10:
		return d.events() + d.one(".count() ", ".size() ") + d.op() + " " + d.one("0", "1", "2", "3", "2.5", "-1", "5000")
	case 11:
		return d.events() + ".last().amount " + d.op() + " " + d.number()
	case 12:
		return d.events() + fmt.Sprintf(".%s(e, e.amount > %s)", d.one("exists", "all", "exists_one"), d.number())
	case 13:
		return d.events() + fmt.Sprintf(".filter(e, e.kind == %s).count() %s 1", d.text(), d.op())
	case 14:
		return fmt.Sprintf("entered(%q)", d.one(d.journeys...))
	case 15:
		return fmt.Sprintf("delivered(%q, \"hello\")", d.one(d.journeys...))
	case 16:
		if len(d.segments) > 0 {
			return fmt.Sprintf("inSegment(%q)", d.one(d.segments...))
		}
	case 17:
		return d.field() + " " + d.op() + " " + d.field()
	case 18:
		return "(" + d.field() + " " + d.op() + " " + d.constant() + ") " + d.one("==", "!=") + " " + d.one("true", "false", "null", "("+d.condition(0)+")")
	case 19:
		return "!!(" + d.condition(0) + ")"
	case 20:
		return d.one("0", "1", "2.5", "-0.0", "1001") + " " + d.op() + " " + d.events() + ".count()"
	case 21:
		return d.text() + " in " + d.one("lead.customFields", "lead.consents", "lead.mobilePhone", fmt.Sprintf("lead.customFields[%q]", d.one(drawnNames...)))
	}
	return d.one(`lead.name.size() > 3.0`, `date(lead.birthday) < today`, `lead.createdAt < today`, `size(lead.mobilePhone) > 1.0`, `lead.region + 1.0 > 2.0`, `lead.name.matches("^[a-z]+$")`)
}
