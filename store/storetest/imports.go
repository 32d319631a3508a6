package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

// rowsOf are the rows of an import, their lines counted from 2, as in a CSV file.
func rowsOf(rows ...string) iter.Seq2[waypost.ImportRow, error] {
	return func(yield func(waypost.ImportRow, error) bool) {
		for i, row := range rows {
			if !yield(waypost.ImportRow{Line: i + 2, Data: []byte(row)}, nil) {
				return
			}
		}
	}
}

// wide makes a row so large that a part holds only four of them.
func wide(row string) string {
	return strings.TrimSuffix(row, "}") + strings.Repeat(" ", 300_000) + "}"
}

func (f *fixture) newImport(t testing.TB, mode waypost.ImportMode, rows ...string) waypost.Import {
	t.Helper()
	return must[waypost.Import](t)(f.CreateImport(t.Context(), scope, waypost.Import{AppID: "app_1", Mode: mode, PhoneRegion: "CN"}, rowsOf(rows...)))
}

// finish runs the steps of an import.
func (f *fixture) finish(t testing.TB, id string) waypost.Import {
	t.Helper()
	for {
		im := must[waypost.Import](t)(f.ImportStep(t.Context(), id))
		if im.Status.Ended() {
			return im
		}
	}
}

// doImport makes an import, processes it and tells its counts and failed rows.
func (f *fixture) doImport(t testing.TB, mode waypost.ImportMode, rows ...string) (counts string, failed []string) {
	t.Helper()
	im := f.finish(t, f.newImport(t, mode, rows...).ID)
	equal(t, "status", im.Status, waypost.ImportSucceeded)
	equal(t, "total", im.Total, len(rows))
	return countsOf(im), f.failedRows(t, im.ID)
}

func countsOf(im waypost.Import) string {
	return fmt.Sprintf("%d = %d created, %d updated, %d failed", im.Processed, im.Created, im.Updated, im.Failed)
}

// failedRows tells the failed rows of an import: "line code target: detail target, …".
func (f *fixture) failedRows(t testing.TB, id string) (list []string) {
	t.Helper()
	ok(t, f.ImportErrors(t.Context(), scope, id, func(e waypost.ImportError) error {
		text := fmt.Sprintf("%d %s %s:", e.Line, e.Code, e.Target)
		for _, d := range e.Details {
			text += fmt.Sprintf(" %s %s", d.Code, d.Target)
		}
		if e.Message == "" {
			t.Errorf("%s has no message", text)
		}
		list = append(list, text)
		return nil
	}))
	return list
}

// leads returns all leads of the scope.
func (f *fixture) leads(t testing.TB, sc waypost.Scope) []waypost.Lead {
	t.Helper()
	var ids []int64
	for id := range int64(500) {
		ids = append(ids, id+1)
	}
	found := must[map[int64]waypost.Lead](t)(f.LeadsByID(t.Context(), sc, ids))
	return slices.SortedFunc(maps.Values(found), func(a, b waypost.Lead) int { return cmp.Compare(a.LeadsID, b.LeadsID) })
}

// byName returns the scope's only lead of a name.
func (f *fixture) byName(t testing.TB, name string) waypost.Lead {
	t.Helper()
	all := slices.DeleteFunc(f.leads(t, scope), func(l waypost.Lead) bool { return l.Name != name })
	if len(all) != 1 {
		t.Fatalf("%d leads are named %s", len(all), name)
	}
	return all[0]
}

// wantHolder fails unless a lead has the mobile number, as the Conflict of another
// that wants it tells; 0: nobody has it.
func (f *fixture) wantHolder(t testing.TB, phone string, id int64) {
	t.Helper()
	_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "taker of " + phone, MobilePhone: []string{phone}}, []string{phone})
	if id == 0 {
		ok(t, err)
		return
	}
	var e *waypost.Error
	if !errors.As(err, &e) || e.Code != waypost.CodeConflict || e.Details[0].Message != fmt.Sprintf("lead %d has it already", id) {
		t.Fatalf("%s: %+v, want it to be of lead %d", phone, err, id)
	}
}

// fuse is a context that ends after it was asked a number of times.
type fuse struct {
	context.Context
	left  *atomic.Int64
	burnt context.CancelFunc
}

func newFuse(ctx context.Context, left int) fuse {
	ctx, cancel := context.WithCancel(ctx)
	f := fuse{ctx, new(atomic.Int64), cancel}
	f.left.Store(int64(left))
	return f
}

func (f fuse) burn() {
	if f.left.Add(-1) < 0 {
		f.burnt()
	}
}

func (f fuse) Done() <-chan struct{} { f.burn(); return f.Context.Done() }
func (f fuse) Err() error            { f.burn(); return f.Context.Err() }
func (f fuse) Value(key any) any     { f.burn(); return f.Context.Value(key) }

var importTests = []test{
	{"matches", testImportMatches},
	{"create", func(t *testing.T, f *fixture) {
		taken := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Taken", ExternalID: ptr("x-0")}, []string{"+8613800138000"}))
		im := f.newImport(t, waypost.ImportCreate,
			`{"leadsId":77,"name":"王小明","leadsGroup":7,"region":-1,"address":"1 'Main' St\\","remark":"l\nl ? ?0 😀","mobilePhone":["138 0013 8001","+1 415 555 2671"],"gender":0,
				"birthday":"1990-02-28","email":"a@example.com","wechat":"w","qq":"123","telephone":"010","company":"C","companyPhone":"1","companyEmail":"c@example.com",
				"companyWebsite":"https://example.com","externalId":"x-1","openId":"o-1","customFields":{"a":"b'","n":1.5,"yes":true,"none":null},"createdAt":1,"updatedAt":[]}`,
			`{"name":"Bare"}`,
			`{"name":"Same id","externalId":"x-0"}`,
			`{"name":"Same number","mobilePhone":["+491711234567","13800138000"]}`,
			`{"name":"Both","externalId":"x-0","mobilePhone":["13800138000"]}`,
			`{"name":"Same as line 2","externalId":"x-1","mobilePhone":["+491711234568"]}`,
			`{"name":"Free, for line 7 failed","mobilePhone":["+491711234568"]}`,
			`{"name":"Twice","mobilePhone":["+491711234569","+49 171 1234569"]}`,
			`{"name":" ","gender":3,"nope":1}`,
			`{"name":1,"leadsGroup":"x"}`,
			`{"name":"Future","birthday":"2999-01-01"}`,
			`{"name":`,
			`["name"]`,
			`{"name":"NUL","customFields":{"a\u0000":1}}`,
			`{"name":"No custom fields","customFields":{"none":null}}`,
		)
		equal(t, "made", im, waypost.Import{
			ID: im.ID, Scope: scope, AppID: "app_1", Mode: waypost.ImportCreate, PhoneRegion: "CN", Status: waypost.ImportPending, Total: 15, CreatedAt: f.clock.Now(),
		})
		equal(t, "stored", must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID)), im)
		f.clock.Advance(time.Second)
		now := f.clock.Now()
		im.Status, im.StartedAt, im.EndedAt = waypost.ImportSucceeded, &now, &now
		im.Processed, im.Created, im.Failed = 15, 5, 10
		equal(t, "done", must[waypost.Import](t)(f.ImportStep(t.Context(), im.ID)), im)
		equal(t, "stored", must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID)), im)
		equal(t, "failed", f.failedRows(t, im.ID), []string{
			"4 Conflict externalId: Duplicate externalId",
			"5 Conflict mobilePhone: Duplicate mobilePhone[1]",
			"6 Conflict externalId: Duplicate externalId Duplicate mobilePhone[0]",
			"7 Conflict externalId: Duplicate externalId",
			"10 BadRequest businessParam: UnknownField nope NullValue name OutOfRange gender",
			"11 BadRequest businessParam: InvalidType name InvalidType leadsGroup",
			"12 UnprocessableEntity businessParam: OutOfRange birthday",
			"13 BadRequest : InvalidFormat ",
			"14 BadRequest : InvalidType ",
			"15 BadRequest businessParam: InvalidFormat customFields.a\x00",
		})
		leads := f.leads(t, scope)
		equal(t, "leads", len(leads), 6)
		var names []string
		for _, l := range leads[1:] {
			names = append(names, l.Name)
		}
		equal(t, "leads in the order of their rows", names, []string{"王小明", "Bare", "Free, for line 7 failed", "Twice", "No custom fields"})
		equal(t, "custom fields", leads[5].CustomFields == nil, true)
		equal(t, "all fields", leads[1], waypost.Lead{LeadsID: leads[1].LeadsID, CreatedAt: now, UpdatedAt: now, LeadFields: waypost.LeadFields{
			LeadsGroup: ptr(int64(7)), Region: ptr(int64(-1)), Address: ptr("1 'Main' St\\"), Remark: ptr("l\nl ? ?0 😀"),
			Name: "王小明", MobilePhone: []string{"138 0013 8001", "+1 415 555 2671"}, Gender: ptr(int64(0)), Birthday: ptr("1990-02-28"),
			Email: ptr("a@example.com"), Wechat: ptr("w"), QQ: ptr("123"), Telephone: ptr("010"), Company: ptr("C"), CompanyPhone: ptr("1"),
			CompanyEmail: ptr("c@example.com"), CompanyWebsite: ptr("https://example.com"), ExternalID: ptr("x-1"), OpenID: ptr("o-1"),
			CustomFields: map[string]any{"a": "b'", "n": 1.5, "yes": true},
		}})
		f.wantHolder(t, "+8613800138001", leads[1].LeadsID)
		f.wantHolder(t, "+14155552671", leads[1].LeadsID)
		f.wantHolder(t, "+491711234568", leads[3].LeadsID)
		f.wantHolder(t, "+491711234567", 0) // of a row that failed
		// Ids of leads go on after an import's; and the one that was there is as it was.
		if next := f.lead(t); next <= leads[5].LeadsID {
			t.Fatalf("leadsId %d after %d", next, leads[5].LeadsID)
		}
		equal(t, "taken", leads[0], taken)
	}},
	{"a duplicate is what it is for a create", func(t *testing.T, f *fixture) {
		must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", ExternalID: ptr("x")}, []string{"+491711234567", "+491711234568"}))
		_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "B", ExternalID: ptr("x")}, []string{"+491711234500", "+491711234568"})
		im := f.newImport(t, waypost.ImportCreate, `{"name":"B","externalId":"x","mobilePhone":["+491711234500","+491711234568"]}`)
		f.finish(t, im.ID)
		var want *waypost.Error
		if !errors.As(err, &want) {
			t.Fatal(err)
		}
		ok(t, f.ImportErrors(t.Context(), scope, im.ID, func(e waypost.ImportError) error {
			equal(t, "failed row", e, waypost.ImportError{Line: 2, Error: want})
			return nil
		}))
	}},
	{"update", func(t *testing.T, f *fixture) {
		create := func(sc waypost.Scope, name, external, phone string) int64 {
			l := must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, waypost.LeadFields{
				Name: name, ExternalID: &external, MobilePhone: []string{phone}, Email: ptr("old@example.com"), CustomFields: map[string]any{"a": "1", "b": "2"},
			}, []string{phone}))
			return l.LeadsID
		}
		a := create(scope, "A", "x-a", "+491711234561")
		b := create(scope, "B", "x-b", "+491711234562")
		c := create(scope, "C", "x-c", "+491711234563")
		d := create(scope, "D", "x-d", "+491711234564")
		other := create(foreign[0], "O", "x-o", "+491711234565")
		now := f.clock.Now()
		counts, failed := f.doImport(t, waypost.ImportUpdate,
			fmt.Sprintf(`{"leadsId":%d,"mobilePhone":["+491711234560"],"email":null,"customFields":{"a":null,"c":3}}`, a), // 2: frees its number,
			`{"externalId":"x-b","mobilePhone":["+491711234561"]}`,                                                        // 3: which this one takes
			fmt.Sprintf(`{"leadsId":%d,"externalId":"x-free"}`, a),                                                        // 4: gives its id up,
			fmt.Sprintf(`{"leadsId":%d,"externalId":"x-a"}`, b),                                                           // 5: which this one takes,
			fmt.Sprintf(`{"leadsId":%d,"externalId":"x-b","remark":"again"}`, a),                                          // 6: and so they have changed places
			`{"externalId":"x-a","company":"by its new id"}`,                                                              // 7: B
			fmt.Sprintf(`{"leadsId":%d,"externalId":null,"mobilePhone":null,"customFields":{"a":null,"b":null}}`, c),      // 8
			fmt.Sprintf(`{"leadsId":%d,"externalId":"x-a"}`, d),                                                           // 9: is B's
			fmt.Sprintf(`{"leadsId":%d,"mobilePhone":["+491711234564","+491711234561"]}`, d),                              // 10: the second is B's
			fmt.Sprintf(`{"leadsId":%d,"name":null,"gender":9}`, d),                                                       // 11
			fmt.Sprintf(`{"leadsId":%d,"mobilePhone":["123"]}`, d),                                                        // 12
			fmt.Sprintf(`{"leadsId":%d,"name":"O"}`, other),                                                               // 13: of another stage
			`{"externalId":"x-c","name":"gone"}`,                                                                          // 14: nobody's since line 8
			`{"leadsId":9999,"externalId":"x-d"}`,                                                                         // 15: its leadsId counts
			`{"name":"nobody"}`,                                                                                           // 16
			`{"externalId":" ","name":"nobody"}`,                                                                          // 17
			fmt.Sprintf(`{"leadsId":%d,"nope":1,"gender":7}`, d),                                                          // 18
		)
		equal(t, "counts", counts, "17 = 0 created, 7 updated, 10 failed")
		equal(t, "failed", failed, []string{
			"9 Conflict externalId: Duplicate externalId",
			"10 Conflict mobilePhone: Duplicate mobilePhone[1]",
			"11 BadRequest businessParam: NullValue name OutOfRange gender",
			"12 BadRequest businessParam: InvalidFormat mobilePhone[0]",
			"13 NotFound leadsId:",
			"14 NotFound externalId:",
			"15 NotFound leadsId:",
			"16 BadRequest businessParam: NullValue leadsId",
			"17 BadRequest businessParam: NullValue leadsId",
			"18 BadRequest businessParam: UnknownField nope",
		})
		want := func(id int64, updatedAt time.Time, fields waypost.LeadFields) {
			t.Helper()
			lead := must[waypost.Lead](t)(f.Lead(t.Context(), scope, id))
			if lead.UpdatedAt.After(updatedAt) && updatedAt.After(now) && lead.UpdatedAt.Before(now.Add(5*time.Millisecond)) {
				updatedAt = lead.UpdatedAt // several rows have changed it, one after the other
			}
			equal(t, fields.Name, lead, waypost.Lead{LeadsID: id, LeadFields: fields, CreatedAt: now, UpdatedAt: updatedAt})
		}
		// The clock stands still: what clients see of the time changes all the same.
		later, custom, email := now.Add(time.Millisecond), map[string]any{"a": "1", "b": "2"}, ptr("old@example.com")
		want(a, later, waypost.LeadFields{Name: "A", ExternalID: ptr("x-b"), MobilePhone: []string{"+491711234560"}, Remark: ptr("again"), CustomFields: map[string]any{"b": "2", "c": 3.0}})
		want(b, later, waypost.LeadFields{Name: "B", ExternalID: ptr("x-a"), MobilePhone: []string{"+491711234561"}, Company: ptr("by its new id"), Email: email, CustomFields: custom})
		want(c, later, waypost.LeadFields{Name: "C", MobilePhone: []string{}, Email: email})
		want(d, now, waypost.LeadFields{Name: "D", ExternalID: ptr("x-d"), MobilePhone: []string{"+491711234564"}, Email: email, CustomFields: custom})
		for phone, id := range map[string]int64{"+491711234560": a, "+491711234561": b, "+491711234562": 0, "+491711234563": 0, "+491711234564": d} {
			f.wantHolder(t, phone, id)
		}
		// Later than before, whichever clock wrote that.
		f.clock.Advance(-time.Hour)
		f.doImport(t, waypost.ImportUpdate, `{"externalId":"x-d"}`)
		equal(t, "after an hour back", f.byName(t, "D").UpdatedAt, later)
		f.clock.Advance(2 * time.Hour)
		f.doImport(t, waypost.ImportUpdate, `{"externalId":"x-d"}`)
		equal(t, "after two hours", f.byName(t, "D").UpdatedAt, f.clock.Now())
	}},
	{"upsert", func(t *testing.T, f *fixture) {
		a := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", ExternalID: ptr("x-a"), MobilePhone: []string{"13800138000"}}, []string{"+8613800138000"}))
		counts, failed := f.doImport(t, waypost.ImportUpsert,
			`{"externalId":"x-a","remark":"updated"}`,                                                          // 2: without the name, which it has
			`{"externalId":"x-b","remark":"no name"}`,                                                          // 3
			`{"externalId":"x-b","name":"B","mobilePhone":["13800138001"],"customFields":{"a":1,"none":null}}`, // 4: new
			`{"externalId":"x-b","customFields":{"a":null,"b":2},"mobilePhone":["13800138002"]}`,               // 5: and updated
			`{"leadsId":4711,"name":"C"}`,                                                                      // 6: an id of elsewhere
			`{"leadsId":4711,"externalId":"x-b","remark":"B"}`,                                                 // 7
			`{"name":"D","mobilePhone":["13800138002"]}`,                                                       // 8: B's
			`{"name":"E","mobilePhone":["13800138001"]}`,                                                       // 9: no longer B's
			fmt.Sprintf(`{"leadsId":%d,"name":"A2"}`, a.LeadsID),                                               // 10
		)
		equal(t, "counts", counts, "9 = 3 created, 4 updated, 2 failed")
		equal(t, "failed", failed, []string{"3 BadRequest businessParam: NullValue name", "8 Conflict mobilePhone: Duplicate mobilePhone[0]"})
		equal(t, "A", f.byName(t, "A2").Remark, ptr("updated"))
		b := f.byName(t, "B")
		equal(t, "B", b.LeadFields, waypost.LeadFields{
			Name: "B", ExternalID: ptr("x-b"), MobilePhone: []string{"13800138002"}, Remark: ptr("B"), CustomFields: map[string]any{"b": 2.0},
		})
		f.wantHolder(t, "+8613800138000", a.LeadsID)
		f.wantHolder(t, "+8613800138001", f.byName(t, "E").LeadsID)
		f.wantHolder(t, "+8613800138002", b.LeadsID)
		// What a later part says of a lead that an earlier one made.
		counts, _ = f.doImport(t, waypost.ImportUpsert, wide(`{"externalId":"y","name":"Y"}`), wide(`{"name":"1"}`), wide(`{"name":"2"}`), wide(`{"name":"3"}`), `{"externalId":"y","qq":"1"}`)
		equal(t, "counts over parts", counts, "5 = 4 created, 1 updated, 0 failed")
		equal(t, "Y", f.byName(t, "Y").QQ, ptr("1"))
		// An export goes into another stage, twice.
		row := string(must[[]byte](t)(json.Marshal(b)))
		for _, want := range []string{"1 = 1 created, 0 updated, 0 failed", "1 = 0 created, 1 updated, 0 failed"} {
			im := must[waypost.Import](t)(f.CreateImport(t.Context(), foreign[0], waypost.Import{Mode: waypost.ImportUpsert, PhoneRegion: "CN"}, rowsOf(row)))
			equal(t, "into another stage", countsOf(f.finish(t, im.ID)), want)
		}
		there := f.leads(t, foreign[0])
		if len(there) != 1 || there[0].LeadsID == b.LeadsID || !reflect.DeepEqual(there[0].LeadFields, b.LeadFields) {
			t.Fatalf("into another stage came %+v, want %+v", there, b.LeadFields)
		}
	}},
	{"dry run", func(t *testing.T, f *fixture) {
		a := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", ExternalID: ptr("x-a")}, []string{"+8613800138000"}))
		im := must[waypost.Import](t)(f.CreateImport(t.Context(), scope, waypost.Import{Mode: waypost.ImportUpsert, DryRun: true, PhoneRegion: "CN"}, rowsOf(
			`{"externalId":"x-a","name":"A2","mobilePhone":["13800138001"]}`,
			`{"externalId":"x-b","name":"B","mobilePhone":["13800138002"]}`,
			`{"externalId":"x-b","name":"B2"}`,
			`{"name":"C","mobilePhone":["13800138000"]}`, // free, if the first row counts
			`{"name":"D","mobilePhone":["13800138001","13800138002"]}`,
			`{"name":""}`,
		)))
		done := f.finish(t, im.ID)
		equal(t, "dry", done.DryRun, true)
		equal(t, "counts", countsOf(done), "6 = 2 created, 2 updated, 2 failed")
		var messages []string
		ok(t, f.ImportErrors(t.Context(), scope, im.ID, func(e waypost.ImportError) error {
			for _, d := range e.Details {
				messages = append(messages, d.Message)
			}
			return nil
		}))
		equal(t, "messages", messages, []string{fmt.Sprintf("lead %d has it already", a.LeadsID), "the row of line 3 has it already", "is missing or blank"})
		equal(t, "leads", f.leads(t, scope), []waypost.Lead{must[waypost.Lead](t)(f.Lead(t.Context(), scope, a.LeadsID))})
		equal(t, "the lead", f.byName(t, "A"), must[waypost.Lead](t)(f.Lead(t.Context(), scope, a.LeadsID)))
		f.wantHolder(t, "+8613800138000", a.LeadsID)
		f.wantHolder(t, "+8613800138001", 0)
	}},
	{"rows", func(t *testing.T, f *fixture) {
		// An error among the rows ends the import, and nothing is stored.
		broken := errors.New("broken file")
		_, err := f.CreateImport(t.Context(), scope, waypost.Import{Mode: waypost.ImportCreate}, func(yield func(waypost.ImportRow, error) bool) {
			if yield(waypost.ImportRow{Line: 1, Data: []byte(`{"name":"A"}`)}, nil) {
				yield(waypost.ImportRow{}, broken)
			}
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		equal(t, "unstarted", len(must[[]waypost.Import](t)(f.UnstartedImports(t.Context(), f.clock.Now(), 10))), 0)
		_, err = f.CreateImport(t.Context(), scope, waypost.Import{Mode: "merge"}, rowsOf())
		wantCode(t, err, waypost.CodeBadRequest)
		// No rows.
		empty := f.newImport(t, waypost.ImportCreate)
		equal(t, "empty", []any{empty.Status, empty.Total, *empty.EndedAt}, []any{waypost.ImportSucceeded, 0, f.clock.Now()})
		equal(t, "its step", must[waypost.Import](t)(f.ImportStep(t.Context(), empty.ID)), empty)
		// A row that could not be read, and one that is too large.
		fault := waypost.Errorf(waypost.CodeBadRequest, "cells", "the row has 3 cells, not 2")
		im := must[waypost.Import](t)(f.CreateImport(t.Context(), scope, waypost.Import{Mode: waypost.ImportCreate}, func(yield func(waypost.ImportRow, error) bool) {
			_ = yield(waypost.ImportRow{Line: 70_000, Fault: fault}, nil) &&
				yield(waypost.ImportRow{Line: 70_001, Data: []byte(`{"name":"` + strings.Repeat("a", 1<<20) + `"}`)}, nil) &&
				yield(waypost.ImportRow{Line: 70_002, Data: []byte(`{"name":"` + strings.Repeat("a", 1<<19) + `"}`)}, nil)
		}))
		equal(t, "counts", countsOf(f.finish(t, im.ID)), "3 = 0 created, 0 updated, 3 failed")
		equal(t, "failed", f.failedRows(t, im.ID), []string{"70000 BadRequest cells:", "70001 PayloadTooLarge :", "70002 BadRequest businessParam: TooLong name"})
		// Whoever reads the failed rows may stop.
		calls := 0
		err = f.ImportErrors(t.Context(), scope, im.ID, func(waypost.ImportError) error { calls++; return broken })
		if !errors.Is(err, broken) || calls != 1 {
			t.Fatalf("after %d calls: %v", calls, err)
		}
	}},
	{"states", func(t *testing.T, f *fixture) {
		rows := []string{wide(`{"name":"1"}`), wide(`{"name":"2"}`), wide(`{"name":""}`), wide(`{"name":"4"}`), `{"name":"5"}`}
		im := f.newImport(t, waypost.ImportCreate, rows...)
		f.clock.Advance(time.Second)
		begun := f.clock.Now()
		running := must[waypost.Import](t)(f.ImportStep(t.Context(), im.ID))
		equal(t, "running", []any{running.Status, *running.StartedAt, running.EndedAt == nil, countsOf(running)},
			[]any{waypost.ImportRunning, begun, true, "4 = 3 created, 0 updated, 1 failed"})
		equal(t, "failed so far", f.failedRows(t, im.ID), []string{"4 BadRequest businessParam: NullValue name"})
		f.clock.Advance(time.Second)
		canceled := must[waypost.Import](t)(f.CancelImport(t.Context(), scope, im.ID))
		equal(t, "canceled", []any{canceled.Status, *canceled.StartedAt, *canceled.EndedAt, countsOf(canceled)},
			[]any{waypost.ImportCanceled, begun, f.clock.Now(), countsOf(running)})
		f.clock.Advance(time.Second)
		equal(t, "again", must[waypost.Import](t)(f.CancelImport(t.Context(), scope, im.ID)), canceled)
		ok(t, f.FailImport(t.Context(), im.ID, "too late"))
		equal(t, "step", must[waypost.Import](t)(f.ImportStep(t.Context(), im.ID)), canceled)
		equal(t, "stored", must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID)), canceled)
		equal(t, "leads", len(f.leads(t, scope)), 3)
		equal(t, "failed rows stay", len(f.failedRows(t, im.ID)), 1)

		failed := f.newImport(t, waypost.ImportCreate, rows...)
		ok(t, f.FailImport(t.Context(), failed.ID, "cannot\x00 go on"))
		now := f.clock.Now()
		failed.Status, failed.Message, failed.EndedAt = waypost.ImportFailed, "cannot\uFFFD go on", &now
		equal(t, "failed", must[waypost.Import](t)(f.ImportStep(t.Context(), failed.ID)), failed)
		_, err := f.CancelImport(t.Context(), scope, failed.ID)
		wantCode(t, err, waypost.CodeConflict)
		done := f.newImport(t, waypost.ImportCreate, `{"name":"done"}`)
		f.finish(t, done.ID)
		_, err = f.CancelImport(t.Context(), scope, done.ID)
		wantCode(t, err, waypost.CodeConflict)

		for _, c := range []struct {
			sc waypost.Scope
			id string
		}{{foreign[0], done.ID}, {foreign[1], im.ID}, {foreign[2], im.ID}, {scope, waypost.NewID(waypost.PrefixImport, now)}, {scope, "imp_\x00"}, {scope, ""}} {
			_, err := f.Import(t.Context(), c.sc, c.id)
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.CancelImport(t.Context(), c.sc, c.id)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.ImportErrors(t.Context(), c.sc, c.id, func(waypost.ImportError) error { return nil }), waypost.CodeNotFound)
		}
		for _, id := range []string{waypost.NewID(waypost.PrefixImport, now), "imp_\x00", ""} {
			_, err := f.ImportStep(t.Context(), id)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.FailImport(t.Context(), id, ""), waypost.CodeNotFound)
			wantCode(t, f.MarkImportStarted(t.Context(), id), waypost.CodeNotFound)
		}
	}},
	{"outbox", func(t *testing.T, f *fixture) {
		f.newImport(t, waypost.ImportCreate) // nothing to do
		a := f.newImport(t, waypost.ImportCreate, `{"name":"A"}`)
		f.clock.Advance(time.Millisecond)
		b := f.newImport(t, waypost.ImportUpdate, `{"name":"B"}`)
		canceled := f.newImport(t, waypost.ImportCreate, `{"name":"C"}`)
		must[waypost.Import](t)(f.CancelImport(t.Context(), scope, canceled.ID))
		unstarted := func(before time.Duration, limit int) []waypost.Import {
			return must[[]waypost.Import](t)(f.UnstartedImports(t.Context(), f.clock.Now().Add(-before), limit))
		}
		equal(t, "the first", unstarted(0, 1), []waypost.Import{a})
		equal(t, "the rest", unstarted(0, 10), []waypost.Import{b})
		equal(t, "claimed", len(unstarted(0, 10)), 0)
		ok(t, f.MarkImportStarted(t.Context(), a.ID))
		ok(t, f.MarkImportStarted(t.Context(), a.ID))
		f.clock.Advance(time.Minute)
		equal(t, "claimed again", unstarted(time.Second, 10), []waypost.Import{b})
		f.finish(t, b.ID) // its workflow runs, but was not marked
		f.clock.Advance(time.Minute)
		equal(t, "ended", len(unstarted(time.Second, 10)), 0)
	}},
	{"answers are kept with the effect", func(t *testing.T, f *fixture) {
		var got any
		claim := func(id string, fails error) (context.Context, *waypost.Claim) {
			c := &waypost.Claim{ID: id, Token: "t", Answer: func(result any) (waypost.Answer, error) {
				got = result
				return waypost.Answer{Status: 202}, fails
			}}
			must[*waypost.Answer](t)(f.ClaimKey(t.Context(), c, []byte("body")))
			return waypost.WithClaim(t.Context(), c), c
		}
		im := waypost.Import{Mode: waypost.ImportCreate, PhoneRegion: "CN"}
		ctx, c := claim("one", nil)
		made := must[waypost.Import](t)(f.CreateImport(ctx, scope, im, rowsOf(`{"name":"A"}`)))
		equal(t, "create", []any{got, c.Kept}, []any{made, true})
		ctx, c = claim("two", nil)
		equal(t, "cancel", must[waypost.Import](t)(f.CancelImport(ctx, scope, made.ID)), got)
		equal(t, "kept", c.Kept, true)
		refused := errors.New("no answer")
		ctx, _ = claim("three", refused)
		_, err := f.CreateImport(ctx, scope, im, rowsOf(`{"name":"A"}`))
		if !errors.Is(err, refused) {
			t.Fatal(err)
		}
		_, err = f.Import(t.Context(), scope, got.(waypost.Import).ID)
		wantCode(t, err, waypost.CodeNotFound)
	}},
	{"steps at the same time", func(t *testing.T, f *fixture) {
		var rows []string
		for i := range 40 {
			rows = append(rows, wide(fmt.Sprintf(`{"name":"%d","externalId":"x-%d"}`, i, i)))
		}
		rows = append(rows, `{"name":""}`)
		im := f.newImport(t, waypost.ImportCreate, rows...)
		for _, err := range atOnce(4, func(int) error {
			for {
				im, err := f.ImportStep(t.Context(), im.ID)
				if err != nil || im.Status.Ended() {
					return err
				}
			}
		}) {
			ok(t, err)
		}
		done := must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID))
		equal(t, "counts", countsOf(done), "41 = 40 created, 0 updated, 1 failed")
		for i, l := range f.leads(t, scope) {
			equal(t, "lead", l.Name, fmt.Sprint(i)) // in the order of the file
		}
		equal(t, "failed", len(f.failedRows(t, im.ID)), 1)
	}},
	{"imports and creates at the same time", func(t *testing.T, f *fixture) {
		// Every key is wanted by all of them, in different orders.
		const keys, writers = 30, 4
		phone := func(i int) string { return fmt.Sprintf("+4917112345%02d", i) }
		var imports []waypost.Import
		for w := range writers {
			mode := waypost.ImportCreate
			if w == 3 {
				mode = waypost.ImportUpsert
			}
			var rows []string
			for i := range keys {
				if w%2 == 1 {
					i = keys - 1 - i
				}
				rows = append(rows, fmt.Sprintf(`{"name":"L%d","externalId":"x-%d","mobilePhone":["%s","%s"]}`, i, i, phone((i+1)%keys), phone(i)))
			}
			imports = append(imports, f.newImport(t, mode, rows...))
		}
		for _, err := range atOnce(writers+4, func(i int) error {
			if i < writers {
				_, err := f.ImportStep(t.Context(), imports[i].ID)
				return err
			}
			for k := i; k < keys; k += 7 {
				_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: fmt.Sprint("L", k), ExternalID: ptr(fmt.Sprint("x-", k))}, []string{phone(k), phone((k + 1) % keys)})
				if code := waypost.CodeOf(err); err != nil && code != waypost.CodeConflict {
					return err
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		held := map[string]int64{}
		for _, l := range f.leads(t, scope) {
			for i, p := range append([]string{*l.ExternalID}, l.MobilePhone...) {
				if held[p] != 0 {
					t.Fatalf("leads %d and %d have the same externalId or number", held[p], l.LeadsID)
				}
				held[p] = l.LeadsID
				if i > 0 {
					f.wantHolder(t, p, l.LeadsID)
				}
			}
		}
		for _, im := range imports {
			im = must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID))
			equal(t, "processed", []any{im.Status, im.Processed, len(f.failedRows(t, im.ID))}, []any{waypost.ImportSucceeded, keys, im.Failed})
		}
	}},
	{"updates at the same time", func(t *testing.T, f *fixture) {
		// Two imports move numbers and externalIds between the same leads, in crossing orders.
		const leads = 40
		for i := range leads {
			must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: fmt.Sprint(i)}, nil))
		}
		var imports []waypost.Import
		for w := range 4 {
			var rows []string
			for i := range leads {
				if w%2 == 1 {
					i = leads - 1 - i
				}
				rows = append(rows, fmt.Sprintf(`{"leadsId":%d,"externalId":"x-%d","mobilePhone":["+4917112345%02d"],"customFields":{"w%d":%d}}`, i+1, (i+w)%leads, (i*(w+1))%leads, w, i))
			}
			imports = append(imports, f.newImport(t, waypost.ImportUpdate, rows...))
		}
		for _, err := range atOnce(len(imports), func(i int) error {
			_, err := f.ImportStep(t.Context(), imports[i].ID)
			return err
		}) {
			ok(t, err)
		}
		// No update is lost: each that was counted left its custom field.
		counted, left := 0, 0
		for _, im := range imports {
			counted += must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID)).Updated
		}
		for _, l := range f.leads(t, scope) {
			left += len(l.CustomFields)
			if l.ExternalID == nil || len(l.MobilePhone) != 1 {
				continue
			}
			f.wantHolder(t, l.MobilePhone[0], l.LeadsID)
		}
		equal(t, "updates", left, counted)
	}},
	{"cut off anywhere", func(t *testing.T, f *fixture) {
		var rows []string
		for i := range 9 {
			rows = append(rows, wide(fmt.Sprintf(`{"name":"%d","externalId":"x-%d","mobilePhone":["+49171123456%d"]}`, i, i%8, i)))
		}
		im := f.newImport(t, waypost.ImportUpsert, rows...) // the last row updates the first lead
		cut := 0
		for asked := 0; ; asked += 1 + asked/8 {
			before := must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID))
			_, err := f.ImportStep(newFuse(t.Context(), asked), im.ID)
			after := must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID))
			// All of a part or nothing, as the import tells it.
			equal(t, "leads", len(f.leads(t, scope)), after.Created)
			if err != nil {
				cut++
				if after.Processed == before.Processed {
					equal(t, "after a cut", after, before)
				}
			}
			if after.Status.Ended() {
				equal(t, "counts", countsOf(after), "9 = 8 created, 1 updated, 0 failed")
				break
			}
		}
		if cut < 10 {
			t.Fatalf("only %d steps were cut off", cut)
		}
		for i, l := range f.leads(t, scope) {
			want := i
			if i == 0 {
				want = 8
			}
			equal(t, "lead", []string{*l.ExternalID, l.Name, l.MobilePhone[0]}, []string{fmt.Sprint("x-", i), fmt.Sprint(want), fmt.Sprint("+49171123456", want)})
			f.wantHolder(t, l.MobilePhone[0], l.LeadsID)
		}
		f.wantHolder(t, "+491711234560", 0)
	}},
}

// Rows name their leads by one field, and the leads that an import has written are found by it.
func testImportMatches(t *testing.T, f *fixture) {
	for i, l := range []waypost.LeadFields{
		{Name: "Ada", Email: ptr("Ada@Example.com"), ExternalID: ptr("x-1")},
		{Name: "Bo", Email: ptr("office@example.com"), MobilePhone: []string{"+8613800138001"}},
		{Name: "Cy", Email: ptr("OFFICE@example.com"), MobilePhone: []string{"+8613800138002"}},
	} {
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, l, l.MobilePhone))
		equal(t, l.Name, lead.LeadsID, int64(i+1))
	}
	for _, c := range []struct {
		match  waypost.ImportMatch
		mode   waypost.ImportMode
		rows   []string
		counts string
		failed []string
		wrote  []string
	}{
		{waypost.MatchEmail, waypost.ImportUpdate, []string{
			`{"email":"ada@EXAMPLE.com","remark":"e","leadsId":2}`, `{"email":"office@example.com","remark":"e"}`, `{"email":"nobody@example.com"}`, `{"remark":"e"}`, `{"externalId":"x-1"}`,
		}, "5 = 0 created, 1 updated, 4 failed", []string{
			"3 Conflict email: Ambiguous email", "4 NotFound email:", "5 BadRequest businessParam: NullValue email", "6 BadRequest businessParam: NullValue email",
		}, []string{"Ada"}},
		{waypost.MatchMobilePhone, waypost.ImportUpdate, []string{
			`{"mobilePhone":["138 0013 8001"],"remark":"m"}`, `{"mobilePhone":["13800138001","13800138002"]}`, `{"mobilePhone":["13800138003"]}`, `{"name":"x"}`,
		}, "4 = 0 created, 1 updated, 3 failed", []string{
			"3 Conflict mobilePhone: Ambiguous mobilePhone", "4 NotFound mobilePhone:", "5 BadRequest businessParam: NullValue mobilePhone",
		}, []string{"Bo"}},
		{waypost.MatchEmail, waypost.ImportUpsert, []string{
			`{"name":"Dee","email":"dee@example.com"}`, `{"email":"DEE@example.com","remark":"again"}`, `{"name":"Eve"}`, `{"name":"Ada L","email":"ada@example.com"}`,
		}, "4 = 2 created, 2 updated, 0 failed", nil, []string{"Ada L", "Dee", "Eve"}},
		{waypost.MatchExternalID, waypost.ImportUpdate, []string{`{"leadsId":2,"externalId":"x-1","remark":"x"}`, `{"leadsId":2}`},
			"2 = 0 created, 1 updated, 1 failed", []string{"3 BadRequest businessParam: NullValue externalId"}, []string{"Ada L"}},
		{waypost.MatchLeadsID, waypost.ImportUpdate, []string{`{"leadsId":2,"externalId":"x-2"}`, `{"externalId":"x-1"}`, `{"leadsId":99}`},
			"3 = 0 created, 1 updated, 2 failed", []string{"3 BadRequest businessParam: NullValue leadsId", "4 NotFound leadsId:"}, []string{"Bo"}},
	} {
		for _, dry := range []bool{true, false} {
			im := must[waypost.Import](t)(f.CreateImport(t.Context(), scope, waypost.Import{AppID: "app_1", Mode: c.mode, Match: c.match, DryRun: dry, PhoneRegion: "CN"}, rowsOf(c.rows...)))
			equal(t, "match", im.Match, c.match)
			done := must[waypost.Import](t)(f.ImportStep(t.Context(), im.ID))
			equal(t, string(c.match), countsOf(done), c.counts)
			equal(t, string(c.match), f.failedRows(t, im.ID), c.failed)
			var wrote []string
			for _, sort := range []waypost.LeadSort{waypost.SortCreatedAt, waypost.SortLeadsIDDown, waypost.SortLeadsID} {
				wrote = nil
				for _, lead := range must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{Filter: waypost.LeadFilter{ImportID: im.ID}, Sort: sort, Page: waypost.Page{Limit: 9}})) {
					wrote = append(wrote, lead.Name)
				}
				slices.Sort(wrote)
				want := c.wrote
				if dry {
					want = nil
				}
				equal(t, string(c.match)+string(sort), wrote, want)
			}
			if !dry {
				_, count, err := f.SampleAudience(t.Context(), scope, waypost.Audience{Filter: &waypost.LeadFilter{ImportID: im.ID}}, f.clock.Now(), 1)
				ok(t, err)
				equal(t, "counted", count, len(c.wrote))
			}
		}
	}
	_, err := f.CreateImport(t.Context(), scope, waypost.Import{Mode: waypost.ImportUpdate, Match: "name"}, func(func(waypost.ImportRow, error) bool) {})
	wantCode(t, err, waypost.CodeBadRequest)
}
