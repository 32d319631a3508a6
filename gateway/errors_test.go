package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/gateway"
	"waypost/limits"
	"waypost/signature"
)

// sample is a request of an operation that openapi.yaml's own example makes; the ids
// in its path name nothing.
func sample(t *testing.T, o *operation) call {
	t.Helper()
	id := "4711"
	for path, prefix := range map[string]string{
		"imports": waypost.PrefixImport, "webhooks": waypost.PrefixWebhook, "journeys": waypost.PrefixJourney, "enrollments": waypost.PrefixEnrollment,
		"segments": waypost.PrefixSegment, "launches": waypost.PrefixLaunch, "deliveries": waypost.PrefixMessage, "redeliveries": waypost.PrefixRedelivery,
	} {
		if strings.Contains(o.path, "/"+path+"/{id}") {
			id = prefix + "06jvh5r0g1s0q2k3m4n5p6q7r8"
		}
	}
	c := call{method: o.method, target: strings.NewReplacer("{id}", id, "{version}", "1", "{a}", "1", "{b}", "draft").Replace(o.path), headers: map[string]string{}}
	if o.RequestBody == nil {
		return c
	}
	if lines := o.RequestBody.Content.GetOrZero("application/x-ndjson"); lines != nil && o.RequestBody.Content.GetOrZero("application/json") == nil {
		c.headers["Content-Type"], c.body = "application/x-ndjson", lines.Example.Value
	} else {
		var example any
		if err := o.RequestBody.Content.GetOrZero("application/json").Example.Decode(&example); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		c.body = string(body)
	}
	return c
}

// maxBodyOf is the largest body that an operation takes, in bytes.
func maxBodyOf(o *operation) int {
	switch o.OperationId {
	case "launch", "forecast", "countLeads":
		return 16 << 20
	case "putArticle":
		return 8 << 20
	case "importLeads", "importArticles", "importEvents":
		return waypost.MaxImportBody
	}
	return 1 << 20
}

// signedOperations are those of openapi.yaml that need a signature.
func signedOperations() (list []*operation) {
	for _, o := range theOpenAPI().operations {
		if o.Extensions.GetOrZero("x-grant") != nil {
			list = append(list, o)
		}
	}
	return list
}

func (o *operation) answers(status string) bool { return o.Responses.Codes.GetOrZero(status) != nil }

// What openapi.yaml says that every route answers, every route answers.
func TestEveryRouteRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, o := range signedOperations() {
		t.Run(o.OperationId, func(t *testing.T) {
			t.Parallel()
			f := f.in(t)
			wrong := sample(t, o)
			wrong.target += "?nope=1"
			f.do(wrong).fault(t, http.StatusBadRequest, "BadRequest", "UnknownField nope")
			unsigned := sample(t, o)
			unsigned.unsigned = true
			f.do(unsigned).fault(t, http.StatusUnauthorized, "Unauthorized", "MissingSignature X-Cloud-Signature")
			brewed := sample(t, o)
			brewed.method, brewed.body = "BREW", ""
			f.do(brewed).fault(t, http.StatusMethodNotAllowed, "MethodNotAllowed", []string{}...)
			if o.answers("404") && o.OperationId != "showReindex" { // another subtest asks for a reindex
				f.do(sample(t, o)).fault(t, http.StatusNotFound, "NotFound", []string{}...)
			}
			if !o.answers("413") {
				return
			}
			large := sample(t, o)
			large.body = strings.Repeat(" ", maxBodyOf(o)+1)
			f.do(large).fault(t, http.StatusRequestEntityTooLarge, "PayloadTooLarge", []string{}...)
			odd := sample(t, o)
			odd.headers["Content-Type"], odd.body = "text/plain", "{}"
			f.do(odd).fault(t, http.StatusUnsupportedMediaType, "UnsupportedMediaType", []string{}...)
			if o.method != http.MethodPost {
				return
			}
			first, second := sample(t, o), sample(t, o)
			first.headers["Idempotency-Key"], second.headers["Idempotency-Key"] = "k", "k"
			if second.body += " "; first.body == "" {
				second.body = "{}"
			}
			if a := f.do(first); a.status >= 400 && a.status != http.StatusNotFound {
				t.Fatalf("openapi.yaml's example is answered %d: %s", a.status, a.raw)
			}
			f.do(second).fault(t, http.StatusConflict, "Conflict", []string{}...)
			if o.answers("404") {
				if again := f.do(first).fault(t, http.StatusNotFound, "NotFound"); again.header.Get("Idempotency-Replayed") != "true" {
					t.Error("a 404 was not kept")
				}
			}
		})
	}
}

// ownThings has one of everything that has an id, by the path of its kind.
func ownThings(f *fixture) map[string]string {
	hook, journeyID := f.welcoming()
	lead := f.newLead("Ada")
	message, enrollment := f.deliver(journeyID, hook, lead, waypost.DeliverySucceeded)
	made := func(path, body string) string {
		return f.send("POST", path, body).expect(f.t, http.StatusAccepted).str(f.t, "id")
	}
	f.putArticle(`{"id":"a-1","tenant_id":"site","name":"n","identifier":"i"}`).expect(f.t, http.StatusCreated)
	return map[string]string{
		"/v1/leads/imports/": made("/v1/leads/imports", `{"leads":[{"name":""}]}`), "/v1/leads/": fmt.Sprint(lead), "/v1/webhooks/": hook,
		"/v1/journeys/": journeyID, "/v1/enrollments/": enrollment, "/v1/deliveries/": message, "/v1/articles/": "a-1",
		"/v1/subscriptions/": f.newSubscription(hook, `"import.ended"`), "/v1/segments/": f.newSegment(`lead.gender == 1`),
		"/v1/launches/":     f.newLaunch(journeyID, `{"audience":{"filter":{}},"startAt":"2027-01-01T00:00:00Z"}`),
		"/v1/redeliveries/": made("/v1/redeliveries", `{"filter":{"status":"failed"}}`),
		"/v1/suppressions/": f.send("POST", "/v1/suppressions", `{"channel":"sms","externalId":"crm-1"}`).expect(f.t, http.StatusCreated).str(f.t, "id"),
	}
}

// What has an id is not there for another organisation and in another stage, on every route; and an application that
// lacks the grant of the route alone is refused.
func TestEveryRouteKeepsOthersOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	things, foreign := ownThings(f), f.otherOrg().key
	before, tried := map[string]string{}, 0
	for _, o := range signedOperations() {
		if !strings.Contains(o.path, "{") {
			continue
		}
		c := sample(t, o)
		for kind, id := range things {
			if _, rest, found := strings.Cut(o.path, kind+"{id}"); found {
				c.target = kind + id + strings.NewReplacer("{version}", "1", "{a}", "1", "{b}", "draft", "{node}", "hello").Replace(rest)
			}
		}
		if o.method == http.MethodGet {
			before[c.target] = f.get(c.target).expect(t, http.StatusOK).raw
		}
		var grant waypost.Grant
		if err := o.Extensions.GetOrZero("x-grant").Decode(&grant); err != nil {
			t.Fatal(err)
		}
		lacking := keyOf(f.newApp(slices.DeleteFunc(slices.Clone(waypost.AllGrants), func(g waypost.Grant) bool { return g == grant })...))
		c.key = &lacking
		f.do(c).fault(t, http.StatusUnauthorized, "Unauthorized", "GrantMissing grants")
		if o.OperationId == "putArticle" {
			continue // which makes an article of the other one's own, of the same id
		}
		c.key = &foreign
		f.do(c).fault(t, http.StatusNotFound, "NotFound")
		c.key, c.headers["X-Cloud-Stage"] = nil, "test"
		f.do(c).fault(t, http.StatusNotFound, "NotFound")
		tried++
	}
	if tried < 55 {
		t.Errorf("only %d operations are tried", tried)
	}
	for target, was := range before {
		if now := f.get(target).expect(t, http.StatusOK).raw; now != was && !strings.HasSuffix(target, "/count") && !strings.HasSuffix(target, "/health") {
			t.Errorf("%s was changed by others:\n%s\n%s", target, was, now)
		}
	}
}

// Whatever can be changed can be protected by its ETag.
func TestEveryChangeHeedsIfMatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	careful, err := f.store.CreateApplication(t.Context(), "", waypost.Application{
		Org: testOrg, Name: "careful", Grants: []waypost.Grant{"*"}, RatePerSecond: 1000, RateBurst: 1000, RequireIfMatch: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(careful)
	objects := map[string]string{
		"/v1/leads/{id}":         fmt.Sprintf("/v1/leads/%d", f.newLead("Ada")),
		"/v1/webhooks/{id}":      "/v1/webhooks/" + f.newWebhook("https://example.com"),
		"/v1/subscriptions/{id}": "/v1/subscriptions/" + f.newSubscription(f.newWebhook("https://example.com"), `"import.ended"`),
		"/v1/launches/{id}":      "/v1/launches/" + f.newLaunch(f.publishedJourney(exits), `{"audience":{"filter":{}}}`),
		"/v1/segments/{id}":      "/v1/segments/" + f.newSegment(`lead.gender == 1`),
		"/v1/suppressions/{id}":  f.send("POST", "/v1/suppressions", `{"channel":"sms","externalId":"crm-1"}`).expect(t, http.StatusCreated).header.Get("Location"),
		"/v1/journeys/{id}":      f.send("POST", "/v1/journeys", `{"name":"n"}`).expect(t, http.StatusCreated).header.Get("Location"),
		"/v1/articles/{id}":      f.putArticle(`{"id":"a-1","tenant_id":"site","name":"n","identifier":"i"}`).header.Get("Location"),
	}
	changes := 0
	for _, o := range signedOperations() {
		if !o.answers("412") {
			continue
		}
		changes++
		c := sample(t, o)
		c.target = objects[o.path]
		before := f.get(c.target).expect(t, http.StatusOK)
		c.headers["If-Match"] = `"AAAAAAAAAAAAAAAAAAAAAA", W/` + before.header.Get("ETag")
		f.do(c).fault(t, http.StatusPreconditionFailed, "PreconditionFailed", []string{}...)
		tag := before.header.Get("ETag")
		for header, truth := range map[string]string{
			"W/" + tag: "a weak ETag", `"x", W/` + tag: "a weak ETag", `W/"x"`: "a weak ETag", `W/"x" , W/"y,z"`: "a weak ETag",
			`"x"`: "has changed", `W/"x", "y"`: "has changed", `"x,` + tag[1:]: "has changed", `"*"`: "has changed", `""`: "has changed",
		} {
			c.headers["If-Match"] = header
			a := f.do(c).fault(t, http.StatusPreconditionFailed, "PreconditionFailed", []string{}...)
			if message := a.str(t, "message"); !strings.Contains(message, truth) || a.json["target"] != "If-Match" {
				t.Errorf("%s, If-Match %s: %s", o.OperationId, header, a.raw)
			}
		}
		for _, header := range []string{tag[1:], tag[:len(tag)-1], strings.Trim(tag, `"`), "w/" + tag, "W/*", "W/", "*, " + tag, tag + ", *", tag + tag, tag + " " + tag, ", ,", `"a b"`} {
			c.headers["If-Match"] = header
			if a := f.do(c).fault(t, http.StatusBadRequest, "BadRequest", []string{}...); a.json["target"] != "If-Match" {
				t.Errorf("%s, If-Match %s: %s", o.OperationId, header, a.raw)
			}
		}
		c.tamper = func(r *http.Request) { r.Header["If-Match"] = []string{tag, tag} }
		f.do(c).fault(t, http.StatusUnauthorized, "Unauthorized", "MalformedSignature if-match")
		c.tamper = nil
		c.key = &key
		delete(c.headers, "If-Match")
		f.do(c).fault(t, http.StatusPreconditionRequired, "PreconditionRequired", []string{}...)
		if after := f.get(c.target).expect(t, http.StatusOK); after.raw != before.raw {
			t.Errorf("%s: a refused change has changed something:\n%s\n%s", o.OperationId, before.raw, after.raw)
		}
		if o.method == http.MethodDelete {
			continue
		}
		c.headers["If-Match"] = `"x,y" , W/"z",	` + tag
		if changed := f.do(c); changed.status/100 != 2 || changed.header.Get("ETag") != f.get(c.target).header.Get("ETag") {
			t.Errorf("%s: %d %s, ETag %s", o.OperationId, changed.status, changed.raw, changed.header.Get("ETag"))
		}
	}
	if changes < 9 {
		t.Errorf("only %d operations change something", changes)
	}
}

// Every route counts for the limits.
func TestEveryRouteIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	slow := keyOf(f.limitedApp(1, 1))
	for _, o := range signedOperations() {
		c := sample(t, o)
		c.key = &slow
		a := f.do(c)
		for range 50 { // on a busy machine a second passes between two requests
			if a.status == http.StatusTooManyRequests {
				break
			}
			a = f.do(c)
		}
		a.fault(t, http.StatusTooManyRequests, "TooManyRequests", []string{}...)
	}
}

// No route tells what is wrong inside.
func TestEveryRouteWithoutDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := keyOf(f.newApp("*"))
	f.get("/v1/webhooks").expect(t, http.StatusOK) // the application is known from here on
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, o := range signedOperations() {
		c := sample(t, o)
		c.headers["X-Request-Id"] = "request-of-" + o.OperationId
		if o.OperationId == "exportLeads" {
			c.key = &other // a stream has begun when it meets the database; a look-up of the key has not
		}
		a := f.do(c).fault(t, http.StatusInternalServerError, "InternalError", []string{}...)
		if want := "internal error; quote request request-of-" + o.OperationId + " when you report it"; a.json["message"] != want {
			t.Errorf("%s: %s", o.OperationId, a.raw)
		}
	}
}

// fullNonces is a process that can keep no more nonces while Redis is away: it takes
// hundreds of thousands of requests to become one.
type fullNonces struct{ gateway.Nonces }

func (fullNonces) UseLocal(string, string) (bool, error) { return false, limits.ErrFull }

// Without its replay guard nothing has an effect, and in the end nothing is read.
func TestEveryRouteWithoutRedis(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		f := newFixture(t, func(o *gateway.Options) {
			if full {
				o.Nonces = fullNonces{o.Nonces}
			}
		})
		f.redis.Close()
		for _, o := range signedOperations() {
			a := f.do(sample(t, o))
			if full || o.method != http.MethodGet || strings.HasPrefix(o.OperationId, "export") {
				a.fault(t, http.StatusServiceUnavailable, "ServiceUnavailable", []string{}...)
			} else if a.status != http.StatusOK && a.status != http.StatusNotFound {
				t.Errorf("%s: %d %s", o.OperationId, a.status, a.raw)
			}
		}
	}
}

// section is a code in docs/errors.md with its request and its answer.
type section struct{ code, request, answer string }

var sectionForm = regexp.MustCompile("(?s)\n### (\\w+)\n.*?```http\n(.*?)```\n\n```json\n(.*?)```")

// docs/errors.md has every code, and every answer in it is what its request gets.
func TestErrorExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]section{}
	for _, m := range sectionForm.FindAllStringSubmatch(string(page), -1) {
		sections[m[1]] = section{m[1], m[2], m[3]}
	}
	if headings := strings.Count(string(page), "\n### "); headings != len(sections) {
		t.Errorf("docs/errors.md has %d headings and %d with a request and an answer", headings, len(sections))
	}
	// The order matters: the last ones take something away.
	codes := []string{
		"BadRequest", "Unauthorized", "NotFound", "MethodNotAllowed", "Conflict", "PreconditionFailed", "PayloadTooLarge", "UnsupportedMediaType",
		"UnprocessableEntity", "PreconditionRequired", "TooManyRequests",
		"NullValue", "InvalidType", "InvalidFormat", "OutOfRange", "TooLong", "UnknownField", "Duplicate", "Ambiguous",
		"MissingSignature", "MalformedSignature", "RequestExpired", "SignatureMismatch", "NonceReused", "GrantMissing",
		"ServiceUnavailable", "InternalError",
	}
	c := theOpenAPI()
	for _, name := range []string{"ErrorCode", "DetailCode"} {
		for _, code := range c.schema(name).Enum {
			if !slices.Contains(codes, code.Value) {
				t.Errorf("%s is not tried", code.Value)
			}
		}
	}
	f := newFixture(t)
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","externalId":"crm-1"}}`).expect(t, http.StatusCreated)
	for _, code := range codes {
		s, there := sections[code]
		if !there {
			t.Errorf("docs/errors.md has no %s", code)
			continue
		}
		a := f.example(t, s)
		detailed := detailOf(a)
		if a.json["code"] != code && detailed != code {
			t.Errorf("%s: the answer is %s", code, a.raw)
		}
		var want, got bytes.Buffer
		if err := json.Compact(&want, []byte(s.answer)); err != nil {
			t.Errorf("%s: its answer is no JSON: %v", code, err)
		}
		if err := json.Indent(&got, []byte(a.raw), "", "  "); err != nil {
			t.Fatal(err)
		}
		if want.String() != a.raw {
			t.Errorf("docs/errors.md, %s: the answer is not what is written there:\n%s", code, got.String())
		}
	}
}

var searchForm = regexp.MustCompile("(?s)```http\n(.*?)```\n\n```json\n(.*?)```")

// So is every answer of article search.
func TestSearchErrorExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "\n## Article search\n")
	f := newFixture(t)
	f.putArticle(`{"id":"a","tenant_id":"site","name":"n","identifier":"i"}`)
	token := f.token(`{"tenantIds":["site"],"from":["frontend"]}`)
	tried := 0
	for _, m := range searchForm.FindAllStringSubmatch(part, -1) {
		tried++
		a := f.example(t, section{request: strings.Replace(m[1], "<ACCESS_TOKEN>", token, 1)})
		var want, got bytes.Buffer
		if err := json.Compact(&want, []byte(m[2])); err != nil {
			t.Errorf("%s: its answer is no JSON: %v", m[1], err)
		}
		if err := json.Indent(&got, []byte(a.raw), "", "  "); err != nil {
			t.Fatal(err)
		}
		if want.String() != a.raw {
			t.Errorf("docs/errors.md, %s: the answer is not what is written there:\n%s", m[1], got.String())
		}
	}
	if tried != strings.Count(part, "```http") || tried < 5 {
		t.Errorf("%d requests of %d were tried", tried, strings.Count(part, "```http"))
	}
}

// example sends the request of a section of docs/errors.md. Where it cannot be
// written down (a secret, a long body, what was before), it is made here.
func (f *fixture) example(t *testing.T, s section) answer {
	t.Helper()
	head, body, _ := strings.Cut(s.request, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	c := call{method: method, target: target, body: strings.TrimSpace(body), headers: map[string]string{}}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		c.headers[name] = value
	}
	switch s.code {
	case "": // of article search
		c.unsigned = true
	case "Unauthorized":
		unknown := signature.Key{AccessKey: "AKunknown", SecretKey: "unknown"}
		c.key = &unknown
	case "PayloadTooLarge":
		c.body = strings.Repeat(" ", 1<<20+1)
	case "PreconditionRequired":
		careful, err := f.store.CreateApplication(t.Context(), "", waypost.Application{
			Org: testOrg, Name: "careful", Grants: []waypost.Grant{"*"}, RatePerSecond: 10, RateBurst: 10, RequireIfMatch: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		key := keyOf(careful)
		c.key = &key
	case "TooManyRequests":
		slow := keyOf(f.limitedApp(1, 1))
		c.key = &slow
		for range 50 {
			if a := f.do(c); a.status == http.StatusTooManyRequests {
				return a
			}
		}
	case "TooLong":
		c.body = strings.Replace(c.body, "(17,000 characters)", strings.Repeat("x", 17_000), 1)
	case "Ambiguous":
		for range 2 {
			f.send("POST", "/v1/leads", `{"businessParam":{"name":"Office","email":"Office@example.com"}}`).expect(t, 201)
		}
	case "MissingSignature":
		c.unsigned = true
	case "MalformedSignature":
		c.nonce = c.headers["X-Cloud-Nonce"]
		delete(c.headers, "X-Cloud-Nonce")
	case "RequestExpired":
		var sec int64
		if _, err := fmt.Sscan(c.headers["X-Cloud-Timestamp"], &sec); err != nil {
			t.Fatal(err)
		}
		c.at = time.Unix(sec, 0)
		delete(c.headers, "X-Cloud-Timestamp")
	case "SignatureMismatch":
		delete(c.headers, "X-Cloud-Signature")
		c.tamper = func(r *http.Request) { r.URL.Opaque = strings.Replace(r.URL.Opaque, "/1", "/2", 1) }
	case "NonceReused":
		c.nonce = c.headers["X-Cloud-Nonce"]
		delete(c.headers, "X-Cloud-Nonce")
		f.do(c).expect(t, http.StatusOK)
	case "GrantMissing":
		poor := keyOf(f.newApp(waypost.GrantLeadsExport))
		c.key = &poor
	case "ServiceUnavailable":
		f.redis.Close()
	case "InternalError":
		if err := f.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return f.do(c)
}
