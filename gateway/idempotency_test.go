package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

func withKey(c call, key string) call {
	c.headers = map[string]string{"Idempotency-Key": key}
	return c
}

func lead(name string) call {
	return call{method: "POST", target: "/v1/leads", body: fmt.Sprintf(`{"businessParam":{"name":%q,"externalId":%q}}`, name, name)}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.do(withKey(lead("Ada"), "key 1")).expect(t, http.StatusCreated)
	again := f.do(withKey(lead("Ada"), "key 1")).expect(t, http.StatusCreated)
	if again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" || first.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("first %s, again %s", first.raw, again.raw)
	}
	for _, name := range []string{"Location", "ETag", "Content-Type"} {
		if first.header.Get(name) == "" || again.header.Get(name) != first.header.Get(name) {
			t.Errorf("%s %q, again %q", name, first.header.Get(name), again.header.Get(name))
		}
	}
	if first.header.Get("X-Request-Id") == again.header.Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
	f.do(withKey(lead("Eve"), "key 1")).fault(t, http.StatusConflict, "Conflict", []string{}...)

	// Refusals: those that would be the same again are kept, others are not.
	duplicate := f.do(withKey(lead("Ada"), "key 2")).fault(t, http.StatusConflict, "Conflict", "Duplicate externalId")
	f.send("DELETE", first.header.Get("Location"), "").expect(t, http.StatusNoContent)
	if kept := f.do(withKey(lead("Ada"), "key 2")); kept.raw != duplicate.raw || kept.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s", kept.status, kept.raw)
	}
	wrong := call{method: "POST", target: "/v1/leads", body: `{"businessParam":{}}`}
	for range 2 {
		if a := f.do(withKey(wrong, "key 3")).fault(t, http.StatusBadRequest, "BadRequest"); a.header.Get("Idempotency-Replayed") != "" {
			t.Error("a 400 was kept")
		}
	}
	f.do(withKey(lead("Bob"), "key 3")).expect(t, http.StatusCreated) // a 400 leaves the key free

	// Other scopes of the same key.
	f.do(call{method: "POST", target: "/v1/leads", body: lead("Cyd").body, headers: map[string]string{"Idempotency-Key": "key 1", "X-Cloud-Stage": "test"}}).expect(t, http.StatusCreated)
	other := keyOf(f.newApp("*"))
	byOther := withKey(lead("Dan"), "key 1")
	byOther.key = &other
	f.do(byOther).expect(t, http.StatusCreated)
	f.do(withKey(call{method: "POST", target: "/v1/webhooks", body: `{"name":"w","url":"https://example.com/"}`}, "key 1")).expect(t, http.StatusCreated)

	for _, key := range []string{strings.Repeat("k", 256), "\u00e4", "tab\tinside"} {
		f.do(withKey(lead("Fay"), key)).fault(t, http.StatusBadRequest, "BadRequest", []string{}...)
	}
	f.do(withKey(lead("Fay"), strings.Repeat("k", 255))).expect(t, http.StatusCreated)
	// A GET has no effect to repeat.
	f.do(withKey(call{method: "GET", target: "/v1/webhooks"}, "key 1")).expect(t, http.StatusOK)

	f.clock.advance(24 * time.Hour)
	f.do(withKey(lead("Eve"), "key 1")).expect(t, http.StatusCreated)
}

// Of many with one key exactly one creates, and all others learn of it or of its
// running.
func TestIdempotencyKeyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var created, replayed, running atomic.Int64
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			a, err := f.try(t.Context(), withKey(call{method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"Ada"}}`}, "once"))
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusCreated && a.header.Get("Idempotency-Replayed") == "true":
				replayed.Add(1)
			case a.status == http.StatusCreated:
				created.Add(1)
			case a.status == http.StatusConflict:
				running.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.raw)
			}
		})
	}
	all.Wait()
	leads, err := f.store.ListLeads(t.Context(), waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}, waypost.LeadQuery{})
	if err != nil || len(leads) != 1 || created.Load() != 1 {
		t.Errorf("%d leads (%v), %d created, %d replayed, %d conflicts", len(leads), err, created.Load(), replayed.Load(), running.Load())
	}
}

// What is answered once more holds no secret in the database.
func TestKeptAnswersAreSealed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do(withKey(lead("Very Unusual Name"), "key")).expect(t, http.StatusCreated)
	f.do(withKey(call{method: "POST", target: "/v1/journeys", body: `{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`}, "j")).expect(t, http.StatusCreated)
	if log := f.log.String(); strings.Contains(log, "Unusual") {
		t.Error("the log names a lead")
	}
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	careful, err := f.store.CreateApplication(t.Context(), "", waypost.Application{
		Org: testOrg, Name: "careful", Grants: []waypost.Grant{"*"}, RequireIfMatch: true, RatePerSecond: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(careful)
	for _, object := range []struct{ path, create, change, method string }{
		{"/v1/leads", `{"businessParam":{"name":"Ada"}}`, `{"businessParam":{"name":"Eve"}}`, "PATCH"},
		{"/v1/leads", `{"businessParam":{"name":"Ada"}}`, `{"businessParam":{"name":"Eve"}}`, "PUT"},
		{"/v1/webhooks", `{"name":"w","url":"https://example.com/"}`, `{"name":"v"}`, "PATCH"},
		{"/v1/journeys", `{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`, `{"name":"m","start":"a","nodes":[{"id":"a","type":"exit"}]}`, "PUT"},
	} {
		made := f.send("POST", object.path, object.create).expect(t, http.StatusCreated)
		target, tag := made.header.Get("Location"), made.header.Get("ETag")
		change := func(ifMatch string) answer {
			return f.do(call{method: object.method, target: target, body: object.change, headers: map[string]string{"If-Match": ifMatch}})
		}
		if got := f.get(target).header.Get("ETag"); got != tag || len(tag) < 10 {
			t.Fatalf("%s: ETag %q, after creation %q", target, got, tag)
		}
		for _, bad := range []string{"abc", `"a`, `"a" "b"`, `,`, `*, "a"`} {
			if a := change(bad).fault(t, http.StatusBadRequest, "BadRequest", []string{}...); a.json["target"] != "If-Match" {
				t.Errorf("%s: %s", bad, a.raw)
			}
		}
		for _, stale := range []string{`"abc"`, `W/` + tag, `"a", "b"`} {
			change(stale).fault(t, http.StatusPreconditionFailed, "PreconditionFailed", []string{}...)
		}
		f.do(call{method: object.method, target: target, body: object.change, key: &key}).fault(t, http.StatusPreconditionRequired, "PreconditionRequired", []string{}...)
		f.do(call{method: "DELETE", target: target, key: &key}).fault(t, http.StatusPreconditionRequired, "PreconditionRequired", []string{}...)
		// What is wrong, or does not exist, comes first.
		f.do(call{method: object.method, target: target, body: `{"nope":1}`, key: &key}).fault(t, http.StatusBadRequest, "BadRequest")
		f.do(call{method: object.method, target: object.path + "/999999", body: object.change, key: &key}).fault(t, http.StatusNotFound, "NotFound")

		changed := change(`"other", ` + tag)
		if changed.status/100 != 2 || changed.header.Get("ETag") == tag {
			t.Fatalf("%d, ETag %q before and %q after", changed.status, tag, changed.header.Get("ETag"))
		}
		if got := f.get(target).header.Get("ETag"); got != changed.header.Get("ETag") {
			t.Errorf("%s: ETag %q, the change answered %q", target, got, changed.header.Get("ETag"))
		}
		change(tag).fault(t, http.StatusPreconditionFailed, "PreconditionFailed", []string{}...)
		f.do(call{method: "DELETE", target: target, headers: map[string]string{"If-Match": tag}}).fault(t, http.StatusPreconditionFailed, "PreconditionFailed", []string{}...)
		f.do(call{method: "DELETE", target: target, headers: map[string]string{"If-Match": "*"}, key: &key}).expect(t, http.StatusNoContent)
		change("*").fault(t, http.StatusNotFound, "NotFound")
	}
}

// The answer that is kept for a key goes with the lead that it tells of. The key stays used: the
// request is not carried out once more.
func TestIdempotencyKeyAfterErasure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := `{"businessParam":{"name":"Ottilie","address":"Zwetschgenallee 4711","mobilePhone":["13800138471"],"externalId":"crm-1"}}`
	create := withKey(call{method: "POST", target: "/v1/leads", body: body}, "erased")
	made := f.do(create).expect(t, http.StatusCreated)
	_, journey := f.welcoming()
	dryRun := withKey(call{method: "POST", target: "/v1/journeys/" + journey + "/dryrun", body: fmt.Sprintf(`{"leadsId":%v}`, made.json["leadsId"])}, "dry")
	if sample := f.do(dryRun).expect(t, http.StatusOK); !strings.Contains(sample.raw, "Ottilie") {
		t.Fatalf("the dry run names nobody: %s", sample.raw)
	}
	erased := f.do(call{method: "DELETE", target: made.header.Get("Location"), headers: map[string]string{"Prefer": "return=representation"}}).expect(t, http.StatusOK)
	for _, want := range []string{`"answers":2`, `"what":"backups of the database","count":null`} {
		if !strings.Contains(erased.raw, want) {
			t.Errorf("%s does not say %s", erased.raw, want)
		}
	}
	if got := erased.header.Get("Preference-Applied"); got != "return=representation" {
		t.Errorf("Preference-Applied %q", got)
	}
	for _, again := range []call{create, dryRun} {
		if a := f.do(again).fault(t, http.StatusConflict, "Conflict"); strings.Contains(a.raw, "Ottilie") || !strings.Contains(a.raw, "erased") {
			t.Errorf("again: %s", a.raw)
		}
	}
	if list := f.get("/v1/leads?externalId=crm-1").expect(t, http.StatusOK); !strings.Contains(list.raw, `"items":[]`) {
		t.Errorf("the lead is there again: %s", list.raw)
	}
	if dump := f.redis.Dump(); strings.Contains(dump, "Ottilie") || strings.Contains(dump, "138471") {
		t.Errorf("Redis holds the person: %s", dump)
	}
}

// What somebody in between can change without breaking the signature makes no second call of one that is sent
// again with its Idempotency-Key.
func TestKeyInTheNetwork(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(*http.Request){
		"an empty piece of the query": func(r *http.Request) { r.URL.RawQuery = "&" },
		"two blanks in the key":       func(r *http.Request) { r.Header.Set("Idempotency-Key", "key  1") },
	} {
		f := newFixture(t)
		c := withKey(call{method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"Ada"}}`}, "key 1")
		f.do(c).expect(t, http.StatusCreated)
		c.tamper = tamper
		if got := f.do(c); got.status != http.StatusCreated || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: HTTP %d, not replayed", name, got.status)
		}
		if items := f.get("/v1/leads").json["items"].([]any); len(items) != 1 {
			t.Errorf("%s: there are %d leads", name, len(items))
		}
	}
	f := newFixture(t)
	c := call{
		method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"Ada"}}`, headers: map[string]string{"X-Cloud-Actor": "Ada L"},
		tamper: func(r *http.Request) { r.Header.Set("X-Cloud-Actor", "Ada  L") },
	}
	id := f.do(c).expect(t, http.StatusCreated).header.Get("X-Request-Id")
	if entries := f.entriesOf(id); len(entries) != 1 || entries[0].Actor != "Ada L" {
		t.Errorf("the audit log has %+v", entries)
	}
}

// A member leadsId that a client makes up names no lead: an answer is kept whatever becomes of leads of
// another organisation.
func TestMadeUpLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.otherOrg()
	foreign := other.newLead("Bea")
	c := withKey(call{
		method: "POST", target: "/v1/leads", body: fmt.Sprintf(`{"businessParam":{"name":"Ada","customFields":{"leadsId":%d}}}`, foreign),
	}, "k")
	webhook := withKey(call{
		method: "POST", target: "/v1/webhooks", body: fmt.Sprintf(`{"name":"w","url":"https://example.com/","params":{"leadsId":%d}}`, foreign),
	}, "w")
	replays := func(when string) {
		for _, c := range []call{c, webhook} {
			if got := f.do(c); got.status != http.StatusCreated || got.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: %s: HTTP %d, not replayed: %s", when, c.target, got.status, got.raw)
			}
		}
	}
	f.do(c).expect(t, http.StatusCreated)
	f.do(webhook).expect(t, http.StatusCreated)
	replays("while there is such a lead")
	erased := other.do(call{method: "DELETE", target: fmt.Sprintf("/v1/leads/%d", foreign), headers: map[string]string{"Prefer": "return=representation"}})
	if erased.status != http.StatusOK || !strings.Contains(erased.raw, `"answers":0`) {
		t.Errorf("the erasure: HTTP %d %s", erased.status, erased.raw)
	}
	replays("after its erasure")
}
