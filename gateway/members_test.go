package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi/datamodel/high/base"
)

// resource is something that calls make and change, whose members are stored.
type resource struct {
	made   string            // where it is made
	path   string            // where it is read and changed, before its id
	id     string            // the member of the answer that is its id
	base   string            // members that it is made with
	values map[string]string // of each member: what makes a difference in the place of, or beside those of base
}

// storedMembers are the resources whose declared members are tried, by the operations that make or
// change them.
func (x *exhibits) storedMembers() map[string]resource {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	x.t.Cleanup(srv.Close)
	certificate, _ := identity(x.t, srv)
	secret := "whsec_" + strings.Repeat("A", 32)
	// Each operation has numbers of its own: no two leads have one.
	lead := func(own int) resource {
		r := resource{"/v1/leads", "/v1/leads/", "leadsId", `"name":"Eve"`, map[string]string{
			"name": `"name":"Eva"`, "leadsGroup": `"leadsGroup":7`, "region": `"region":7`,
			"mobilePhone": fmt.Sprintf(`"mobilePhone":["1390000000%d"]`, own), "gender": `"gender":2`,
			"birthday": `"birthday":"1991-01-01"`, "email": `"email":"eve@example.com"`, "companyEmail": `"companyEmail":"eve@example.com"`,
			"companyWebsite": `"companyWebsite":"https://example.com"`, "customFields": `"customFields":{"a":1}`,
			"consents": `"consents":{"sms":true}`, "test": `"test":true`,
		}}
		for _, name := range []string{"address", "remark", "wechat", "qq", "telephone", "company", "companyPhone", "externalId", "openId"} {
			r.values[name] = fmt.Sprintf(`%q:"1234%d"`, name, own)
		}
		return r
	}
	madeHook := `"name":"A","url":"https://example.com/a","channel":"sms","signingSecret":"` + secret + `"`
	hook := resource{"/v1/webhooks", "/v1/webhooks/", "id", madeHook, map[string]string{
		"name": `"name":"B"`, "url": `"url":"https://example.com/b"`, "basicAuth": `"basicAuth":{"username":"u","password":"p"}`,
		"tls": `"tls":{"caCertificate":` + strconv.Quote(certificate) + `}`, "params": `"params":{"a":"b"}`,
		"timeoutMs": `"timeoutMs":1000`, "retry": `"retry":{"maxAttempts":1}`,
		"rateLimit": `"rateLimit":{"perSecond":2}`, "maxConcurrency": `"maxConcurrency":3`, "channel": `"channel":"mail"`,
		"requiresConsent": `"requiresConsent":true`,
		"enabled":         `"enabled":false`, "signingSecret": `"signingSecret":null`,
		"signingOverlap": `"signingSecret":"whsec_` + strings.Repeat("B", 32) + `","signingOverlap":"P2D"`,
	}}
	madeSubscription := `"name":"A","on":["enrollment.ended"],"webhookId":"` + x.hook + `"`
	subscription := resource{"/v1/subscriptions", "/v1/subscriptions/", "id", madeSubscription, map[string]string{
		"name": `"name":"B"`, "on": `"on":["launch.ended"]`, "webhookId": `"webhookId":"` + x.newWebhook("https://example.com") + `"`,
		"journeyId": `"journeyId":"` + x.journey + `"`,
	}}
	segment := resource{"/v1/segments", "/v1/segments/", "id", `"name":"A","when":"lead.gender == 1"`, map[string]string{
		"name": `"name":"B"`, "when": `"when":"lead.gender == 2"`,
	}}
	suppression := resource{"/v1/suppressions", "/v1/suppressions/", "id", `"channel":"sms","externalId":"z-0"`, map[string]string{
		"channel": `"channel":"push"`, "mobilePhone": `"externalId":null,"mobilePhone":"13900000000"`,
		"email": `"externalId":null,"email":"z@example.com"`, "externalId": `"externalId":"z-1"`,
	}}
	madeLaunch := `"audience":{"leadsIds":[1]},"startAt":"2030-01-01T00:00:00Z"`
	launch := resource{"/v1/journeys/" + x.withWinner() + "/launches", "/v1/launches/", "launchId", madeLaunch, map[string]string{
		"audience": `"audience":{"leadsIds":[1,2]}`, "startAt": `"startAt":"2031-01-01T00:00:00Z"`,
		"ratePerSecond": `"ratePerSecond":2`, "schedule": `"schedule":{"cron":"@daily"}`,
		"controlGroup": `"controlGroup":0.5`, "test": `"test":{"leads":1}`,
	}}
	enrolls := "/v1/journeys/" + x.publishedJourney(welcome(x.hook)) + "/enrollments"
	enrollment := resource{enrolls, "/v1/enrollments/", "enrollmentId", fmt.Sprintf(`"leadsId":%d`, x.leads[0]), map[string]string{
		"leadsId": fmt.Sprintf(`"leadsId":%d`, x.leads[1]), "entryKey": `"entryKey":"k"`, "params": `"entryKey":"p","params":{"a":1}`,
	}}
	article := resource{"", "/v1/articles/", "id", `"tenant_id":"site","name":"A","identifier":"i"`, map[string]string{
		"id": "", "tenant_id": `"tenant_id":"other"`, "name": `"name":"B"`, "identifier": `"identifier":"j"`,
		"content": `"content":"c"`, "access_level": `"access_level":1`,
		"published": `"published":false`, "frontend_url": `"frontend_url":"https://example.com"`,
		"channels":     `"channels":[{"id":"c","name":"C"}]`,
		"published_at": `"published_at":"2026-01-01T00:00:00Z"`,
	}}
	return map[string]resource{
		"createLead": lead(1), "patchLead": lead(2), "replaceLead": lead(3), "createWebhook": hook, "patchWebhook": hook,
		"createSubscription": subscription, "patchSubscription": subscription,
		"createSegment": segment, "replaceSegment": segment, "createSuppression": suppression, "launch": launch,
		"patchLaunch": launch, "enroll": enrollment, "putArticle": article,
	}
}

// changesNothing are the operations with a body that change no resource by its members: they do or answer something.
var changesNothing = []string{
	"countLeads", "importLeads", "importEvents", "importArticles", "copyJourney", "migrateJourney", "reverseWinner", "dryRun",
	"testJourney", "forecast",
	"resumeEnrollment", "resumeLaunch", "resumeJourney", "acceptEvent", "createRedelivery", "issueToken",
	"createJourney", "replaceJourney", // package journey tries their members
}

// bodyMembers are the members that a body declares; those of businessParam for a lead.
func bodyMembers(s *base.Schema) map[string]bool {
	members := map[string]bool{}
	for name, member := range s.Properties.FromOldest() {
		if name == "businessParam" {
			return bodyMembers(member.Schema())
		}
		members[name] = true
	}
	for _, part := range s.AllOf {
		maps.Copy(members, bodyMembers(part.Schema()))
	}
	return members
}

// write sends members, in the wrapping of a lead, and returns the answer.
func (x *exhibits) write(method, path string, members map[string]any) answer {
	x.t.Helper()
	var body any = members
	if strings.HasPrefix(path, "/v1/leads") {
		body = map[string]any{"businessParam": members}
	}
	text, err := json.Marshal(body)
	if err != nil {
		x.t.Fatal(err)
	}
	x.clock.advance(time.Second)
	a := x.send(method, path, string(text))
	if a.status >= http.StatusBadRequest {
		x.t.Errorf("%s %s %s: %s", method, path, text, a.raw)
	}
	return a
}

// shown makes a resource, has change change it, and returns what it is read as then.
func (x *exhibits) shown(r resource, members map[string]any, change func(path string)) map[string]any {
	x.t.Helper()
	path := r.path + "a"
	if r.made != "" {
		path = fmt.Sprint(r.path, x.write("POST", r.made, members).json[r.id])
	} else {
		x.write("PUT", path, members)
	}
	if change != nil {
		change(path)
	}
	return x.get(path).expect(x.t, http.StatusOK).json
}

func objectOf(t *testing.T, members ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, m := range members { // later ones win
		if err := json.Unmarshal([]byte("{"+m+"}"), &all); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Every member that a body declares makes a difference where the thing is read: in the member of its name,
// or elsewhere for what is never shown.
func TestEveryMemberHasAnEffect(t *testing.T) {
	t.Parallel()
	x := newExhibits(t)
	resources, tried := x.storedMembers(), 0
	for _, o := range signedOperations() {
		if o.RequestBody == nil || slices.Contains(changesNothing, o.OperationId) {
			continue
		}
		r, known := resources[o.OperationId]
		if !known {
			t.Errorf("%s takes a body: give storedMembers() an example of each member, or add it to changesNothing", o.OperationId)
			continue
		}
		var plain map[string]any
		for name := range bodyMembers(o.RequestBody.Content.GetOrZero("application/json").Schema.Schema()) {
			value, known := r.values[name]
			if !known {
				t.Errorf("%s declares %s: give storedMembers() a value that makes a difference", o.OperationId, name)
			}
			if value == "" {
				continue // named by the path, or told above
			}
			tried++
			if plain == nil {
				plain = x.shown(r, objectOf(t, r.base), nil)
			}
			var got map[string]any
			switch changed := objectOf(t, r.base, value); {
			case o.method == http.MethodPost || r.made == "":
				got = x.shown(r, changed, nil)
			case o.method == http.MethodPut:
				got = x.shown(r, objectOf(t, r.base), func(path string) { x.write("PUT", path, changed) })
			default:
				got = x.shown(r, objectOf(t, r.base), func(path string) { x.write("PATCH", path, objectOf(t, value)) })
			}
			if _, shows := got[name]; shows && reflect.DeepEqual(got[name], plain[name]) {
				t.Errorf("%s: %s changes nothing: it is %v", o.OperationId, value, got[name])
			} else if !shows && reflect.DeepEqual(lasting(got), lasting(plain)) {
				t.Errorf("%s: %s changes nothing of %v", o.OperationId, value, got)
			}
		}
	}
	if tried < 90 {
		t.Errorf("only %d members were tried", tried)
	}
}

// lasting is what is the same of two that were made alike.
func lasting(thing map[string]any) map[string]any {
	thing = maps.Clone(thing)
	for _, name := range []string{"id", "createdAt", "updatedAt"} {
		delete(thing, name)
	}
	return thing
}

// bounds are values of a member at its limit and beyond it, as its schema declares them.
func bounds(s *base.Schema) (within, beyond []any) {
	if s.MaxLength != nil {
		within = append(within, strings.Repeat("x", int(*s.MaxLength)))
		beyond = append(beyond, strings.Repeat("x", int(*s.MaxLength)+1))
	}
	if s.Minimum != nil && slices.Contains(s.Type, "integer") {
		within, beyond = append(within, *s.Minimum), append(beyond, *s.Minimum-1)
	}
	if s.Maximum != nil && slices.Contains(s.Type, "integer") {
		within, beyond = append(within, *s.Maximum), append(beyond, *s.Maximum+1)
	}
	return within, beyond
}

// membersWithin are the schemas of a body's members; those of businessParam for a lead.
func membersWithin(s *base.Schema, members map[string]*base.Schema) {
	for name, member := range s.Properties.FromOldest() {
		if name == "businessParam" {
			membersWithin(member.Schema(), members)
			continue
		}
		members[name] = member.Schema()
	}
	for _, part := range s.AllOf {
		membersWithin(part.Schema(), members)
	}
}

// A body's members are refused beyond the limits that openapi.yaml declares, and not at them: the limits are written
// in the tags of package api, and checked by the vocabulary.
func TestLimitsAreThoseThatAreDeclared(t *testing.T) {
	t.Parallel()
	x := newExhibits(t)
	resources, tried := x.storedMembers(), 0
	for _, o := range signedOperations() {
		r, known := resources[o.OperationId]
		if o.method != http.MethodPost || !known {
			continue
		}
		members := map[string]*base.Schema{}
		membersWithin(o.RequestBody.Content.GetOrZero("application/json").Schema.Schema(), members)
		for name, s := range members {
			within, beyond := bounds(s)
			for i := range within {
				tried++
				if codes := x.refused(r, name, within[i]); slices.Contains(codes, "TooLong") || slices.Contains(codes, "OutOfRange") {
					t.Errorf("%s refuses %s within its limit, as %q: %.80v", o.OperationId, name, codes, within[i])
				}
				if codes := x.refused(r, name, beyond[i]); len(codes) == 0 {
					t.Errorf("%s takes %s beyond its limit: %.80v", o.OperationId, name, beyond[i])
				}
			}
		}
	}
	if tried < 25 {
		t.Errorf("only %d limits were tried", tried)
	}
}

// refused makes a resource with another value of a member, and returns the codes of what is wrong with that.
func (x *exhibits) refused(r resource, name string, value any) (codes []string) {
	x.t.Helper()
	members := objectOf(x.t, r.base, r.values[name])
	members[name] = value
	var body any = members
	if strings.HasPrefix(r.made, "/v1/leads") {
		body = map[string]any{"businessParam": members}
	}
	text, err := json.Marshal(body)
	if err != nil {
		x.t.Fatal(err)
	}
	x.clock.advance(time.Second)
	a := x.send("POST", r.made, string(text))
	list, _ := a.json["detail"].([]any)
	for _, d := range list {
		if detail := d.(map[string]any); strings.HasSuffix(fmt.Sprint(detail["target"]), name) {
			codes = append(codes, fmt.Sprint(detail["code"]))
		}
	}
	return codes
}
