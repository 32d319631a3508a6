package gateway_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/responses"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// openAPI is openapi.yaml as the tests use it: it validates every answer that the
// harness gets, and knows which ones it has seen.
type openAPI struct {
	model      *v3.Document
	validator  validator.Validator
	schemas    schema_validation.SchemaValidator // for what the other does not look at
	operations []*operation
	mu         sync.Mutex
	codes      map[string]bool // of errors and of their details
	answers    map[string]bool // "operationId status"
	kept       map[string]bool // what keep has remembered
}

// one is held while something is validated: the library keeps schemas that it is
// still compiling where others find them.
var one sync.Mutex

// operation is one method of a path.
type operation struct {
	*v3.Operation
	method, path string // the path as in openapi.yaml, with {id}
	item         *v3.PathItem
	segments     []string
	literals     int // segments that are no parameters
}

// theOpenAPI takes seconds to make: only those who need it wait for it.
var theOpenAPI = sync.OnceValue(func() *openAPI {
	c, err := readOpenAPI()
	if err != nil {
		panic(err)
	}
	return c
})

func readOpenAPI() (*openAPI, error) {
	data, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	document, err := libopenapi.NewDocument(data)
	if err != nil {
		return nil, err
	}
	built, err := document.BuildV3Model()
	if err != nil {
		return nil, err
	}
	c := &openAPI{
		model: &built.Model, schemas: schema_validation.NewSchemaValidator(),
		codes: map[string]bool{}, answers: map[string]bool{}, kept: map[string]bool{},
	}
	c.validator = validator.NewValidatorFromV3Model(c.model)
	c.validator.SetDocument(document)
	for path, item := range c.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			o := &operation{Operation: op, method: strings.ToUpper(method), path: path, item: item, segments: strings.Split(path, "/")}
			for _, s := range o.segments {
				if !strings.HasPrefix(s, "{") {
					o.literals++
				}
			}
			c.operations = append(c.operations, o)
		}
	}
	return c, nil
}

func (o *operation) matches(segments []string) bool {
	if len(segments) != len(o.segments) {
		return false
	}
	for i, want := range o.segments {
		if strings.HasPrefix(want, "{") && segments[i] != "" || want == segments[i] {
			continue
		}
		return false
	}
	return true
}

// find returns the operation of a request, the one with the most literal path as the
// gateway routes it; nil where there is none.
func (c *openAPI) find(method, path string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(path, "/")
	var found *operation
	for _, o := range c.operations {
		if o.method == method && o.matches(segments) && (found == nil || o.literals > found.literals) {
			found = o
		}
	}
	return found
}

// plainHeaders say nothing about the interface, or are the same on every answer.
var plainHeaders = []string{
	"Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Trailer", "Transfer-Encoding", "Vary",
	"Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options",
}

// check validates an answer, and, if it is a success, the request that got it: what
// the gateway takes must be what openapi.yaml permits.
func (c *openAPI) check(t testing.TB, method, target string, headers http.Header, body string, a answer) {
	t.Helper()
	path, query, _ := strings.Cut(target, "?")
	if strings.HasPrefix(path, "/docs/") && a.status < 400 {
		return // a file of the page /docs: no part of the interface
	}
	one.Lock()
	defer one.Unlock()
	u := &url.URL{Scheme: "http", Host: "h", Path: path, RawPath: path, RawQuery: query}
	if plain, err := url.PathUnescape(path); err == nil {
		u.Path = plain
	}
	req := &http.Request{Method: method, URL: u, Header: headers.Clone(), Host: "h", Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
	res := &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(strings.NewReader(a.raw))}
	o := c.find(method, path)
	var faults []string
	note := func(valid bool, found []*errors.ValidationError) {
		for _, e := range found {
			faults = append(faults, e.Message+": "+e.Reason)
			for _, s := range e.SchemaValidationErrors {
				faults = append(faults, fmt.Sprintf("  %s: %s", strings.Join(s.InstancePath, "."), s.Reason))
			}
		}
		if !valid && len(found) == 0 {
			faults = append(faults, "it is not valid")
		}
	}
	response, name := c.responseTo(o, a)
	switch {
	case response == nil:
		faults = append(faults, "the status is not in openapi.yaml")
	case o != nil && method != http.MethodHead && streamed[name] == nil:
		note(c.validator.GetResponseBodyValidator().ValidateResponseBodyWithPathItem(req, res, o.item, o.path))
	default:
		note(responses.ValidateResponseHeaders(req, res, response.Headers, path, strconv.Itoa(a.status)))
		if response.Content == nil {
			break
		}
		media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
		content := response.Content.GetOrZero(media)
		switch {
		case content == nil:
			faults = append(faults, "the media type "+media+" is not in openapi.yaml")
		case streamed[name] != nil && media != "text/csv":
			for line := range strings.Lines(a.raw) {
				note(c.schemas.ValidateSchemaString(c.schema(streamed[name](line)), line))
			}
		case media == "application/json" && a.raw != "":
			note(c.schemas.ValidateSchemaString(content.Schema.Schema(), a.raw))
		}
	}
	// The validator takes the quotes of a header's value away before it looks.
	if tag := a.header.Get("ETag"); tag != "" && !etagForm.MatchString(tag) {
		faults = append(faults, "the ETag is none of ours")
	}
	if response != nil && response.Content != nil && a.raw != "" && streamed[name] == nil {
		if content := response.Content.GetOrZero("application/json"); content != nil {
			faults = append(faults, outOfOrder("the answer", content.Schema.Schema(), json.RawMessage(a.raw))...)
		}
	}
	if response != nil {
		if (response.Content == nil || method == http.MethodHead) && a.raw != "" {
			faults = append(faults, "it has a body")
		}
		for header := range a.header {
			if !slices.Contains(plainHeaders, header) && response.Headers.GetOrZero(headerName(response, header)) == nil {
				faults = append(faults, "the header "+header+" is not in openapi.yaml")
			}
		}
	}
	if o != nil && a.status/100 == 2 && method != http.MethodHead {
		if media, _, _ := strings.Cut(headers.Get("Content-Type"), ";"); media == "application/x-ndjson" || len(body) > maxCheckedBody {
			req.Body, req.ContentLength = http.NoBody, 0 // the validator takes it for JSON, or takes seconds
			p := c.validator.GetParameterValidator()
			note(p.ValidateQueryParamsWithPathItem(req, o.item, o.path))
			note(p.ValidateHeaderParamsWithPathItem(req, o.item, o.path))
			note(p.ValidateSecurityWithPathItem(req, o.item, o.path))
		} else {
			note(c.validator.ValidateHttpRequestSyncWithPathItem(req, o.item, o.path))
		}
	}
	if len(faults) > 0 {
		t.Errorf("%s %s → %d is not as openapi.yaml says (%s):\n%s\nsent %.400q\ngot  %.1000s", method, target, a.status, name, strings.Join(faults, "\n"), body, a.raw)
	}
	c.saw(name, a)
	c.keep(name, a)
}

// maxCheckedBody is the longest request that is validated, in bytes.
const maxCheckedBody = 1 << 20

// responseTo returns what openapi.yaml says of an answer, and its name there. A path
// or a method that does not exist has no operation, and shared answers.
func (c *openAPI) responseTo(o *operation, a answer) (response *v3.Response, name string) {
	status := strconv.Itoa(a.status)
	if o != nil {
		return o.Responses.Codes.GetOrZero(status), o.OperationId + " " + status
	}
	name = codeOf(a)
	if _, isEnvelope := a.json["status"]; isEnvelope {
		name = "Search" + name
	}
	switch a.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusTooManyRequests:
		return c.model.Components.Responses.GetOrZero(name), name
	}
	return nil, name
}

var etagForm = regexp.MustCompile(`^"[A-Za-z0-9_-]{22}"$`)

// headerName is the name of a header as openapi.yaml writes it.
func headerName(r *v3.Response, name string) string {
	for declared := range r.Headers.KeysFromOldest() {
		if strings.EqualFold(declared, name) {
			return declared
		}
	}
	return name
}

// streamed says which schema a line of an NDJSON answer has.
var streamed = map[string]func(line string) string{
	"showImportErrors 200": func(string) string { return "ImportError" },
	"exportLeads 200":      func(line string) string { return endOr("Lead", line) },
	"exportDeliveries 200": func(line string) string { return endOr("Delivery", line) },
}

// endOr is the schema of a line of an export of things.
func endOr(thing, line string) string {
	if strings.HasPrefix(line, `{"end":`) {
		return "ExportEnd"
	}
	return thing
}

func (c *openAPI) schema(name string) *base.Schema {
	return c.model.Components.Schemas.GetOrZero(name).Schema()
}

// saw remembers an answer and the codes in it.
func (c *openAPI) saw(name string, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[name] = true
	if a.status < 400 {
		return
	}
	c.codes[codeOf(a)] = true
	list, _ := a.json["detail"].([]any)
	for _, d := range list {
		if d, isObject := d.(map[string]any); isObject {
			code, _ := d["code"].(string)
			c.codes[code] = true
		}
	}
}

// unseen lists what openapi.yaml has and no test has met.
func (c *openAPI) unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, name := range []string{"ErrorCode", "DetailCode"} {
		for _, code := range c.schema(name).Enum {
			if !c.codes[code.Value] {
				missing = append(missing, name+" "+code.Value)
			}
		}
	}
	for _, o := range c.operations {
		for status := range o.Responses.Codes.KeysFromOldest() {
			if name := o.OperationId + " " + status; !c.answers[name] {
				missing = append(missing, fmt.Sprintf("%s of %s %s", name, o.method, o.path))
			}
		}
	}
	return missing
}

// TestMain holds all of openapi.yaml against what all tests together have met, if
// they all have run.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := theOpenAPI().writeAnswers(); err != nil {
		fmt.Println(err)
		code = 1
	}
	all := !testing.Short()
	for _, narrowed := range []string{"test.run", "test.skip", "test.list", "test.fuzz", "test.bench"} {
		all = all && flag.Lookup(narrowed).Value.String() == ""
	}
	if code == 0 && all {
		if missing := theOpenAPI().unseen(); len(missing) > 0 {
			fmt.Printf("FAIL: openapi.yaml has answers that no test has met:\n  %s\n", strings.Join(missing, "\n  "))
			code = 1
		}
	}
	os.Exit(code)
}

// The document is OpenAPI 3.1, and its examples are valid.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	c := theOpenAPI()
	one.Lock()
	defer one.Unlock()
	if _, faults := c.validator.ValidateDocument(); len(faults) > 0 {
		for _, f := range faults {
			t.Errorf("%s: %s %v", f.Message, f.Reason, f.SchemaValidationErrors)
		}
	}
	valid := func(where string, schema *base.SchemaProxy, example any) {
		t.Helper()
		raw, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		if ok, faults := c.schemas.ValidateSchemaBytes(schema.Schema(), raw); !ok {
			t.Errorf("an example of %s is not valid: %v\n%s", where, faults[0].SchemaValidationErrors, raw)
		}
	}
	examples := 0
	for name, schema := range c.model.Components.Schemas.FromOldest() {
		for _, e := range schema.Schema().Examples {
			var v any
			if err := e.Decode(&v); err != nil {
				t.Fatal(err)
			}
			valid(name, schema, v)
			examples++
		}
	}
	media := func(where string, m *v3.MediaType) {
		if m.Example == nil {
			return
		}
		var v any
		if err := m.Example.Decode(&v); err != nil {
			t.Fatal(err)
		}
		valid(where, m.Schema, v)
		examples++
	}
	for name, r := range c.model.Components.Responses.FromOldest() {
		for m := range r.Content.ValuesFromOldest() {
			media(name, m)
		}
	}
	for _, o := range c.operations {
		if o.RequestBody != nil {
			for m := range o.RequestBody.Content.ValuesFromOldest() {
				media(o.OperationId, m)
			}
		}
	}
	if examples < 40 {
		t.Errorf("only %d examples were found", examples)
	}
}

// The check finds what it is there for.
func TestOpenAPIFindsDrift(t *testing.T) {
	t.Parallel()
	shared := theOpenAPI()
	c := &openAPI{ // of its own, so that the other one does not remember this
		model: shared.model, validator: shared.validator, schemas: shared.schemas, operations: shared.operations,
		codes: map[string]bool{}, answers: map[string]bool{},
	}
	std := func(add ...string) http.Header {
		h := http.Header{"X-Request-Id": {"r"}, "Ratelimit": {`"address";r=1;t=1, "application";r=1;t=1`}, "Ratelimit-Policy": {`"address";q=1;w=1, "application";q=1;w=1`}, "Content-Type": {"application/json;charset=UTF-8"}}
		for i := 0; i < len(add); i += 2 {
			if h.Set(add[i], add[i+1]); add[i+1] == "" {
				h.Del(add[i])
			}
		}
		return h
	}
	signed := http.Header{"X-Cloud-Signature": {"s"}, "X-Cloud-Timestamp": {"1"}, "X-Cloud-Nonce": {"n"}, "X-Cloud-Content-Sha256": {"h"}, "Content-Type": {"application/json"}}
	const tag = `"AAAAAAAAAAAAAAAAAAAAAA"`
	const event = `{"eventId":"e","name":"n","leadsId":1}`
	for _, tc := range []struct {
		name, method, target, body string
		status                     int
		header                     http.Header
		raw                        string
		fault                      string // "": none
	}{
		{"right", "POST", "/v1/events", event, 202, std(), `{"eventId":"e","duplicate":false}`, ""},
		{"a replay", "POST", "/v1/events", event, 202, std("Idempotency-Replayed", "true"), `{"eventId":"e","duplicate":false}`, ""},
		{"another member", "POST", "/v1/events", event, 202, std(), `{"eventId":"e","duplicate":false,"x":1}`, "'x' not allowed"},
		{"a missing member", "POST", "/v1/events", event, 202, std(), `{"eventId":"e"}`, "duplicate"},
		{"another status", "POST", "/v1/events", event, 200, std(), `{"eventId":"e","duplicate":false}`, "status"},
		{"another header", "POST", "/v1/events", event, 202, std("X-New", "1"), `{"eventId":"e","duplicate":false}`, "X-New"},
		{"a missing header", "POST", "/v1/events", event, 202, std("RateLimit", ""), `{"eventId":"e","duplicate":false}`, "RateLimit"},
		{"a malformed header", "POST", "/v1/events", event, 202, std("RateLimit", "x"), `{"eventId":"e","duplicate":false}`, "does not match pattern"},
		{"another media type", "POST", "/v1/events", event, 202, std("Content-Type", "text/plain"), `{"eventId":"e","duplicate":false}`, "text/plain"},
		{"a request with another member", "POST", "/v1/events", `{"eventId":"e","name":"n","leadsId":1,"x":1}`, 202, std(), `{"eventId":"e","duplicate":false}`, "'x' not allowed"},
		{"a request with another parameter", "GET", "/v1/webhooks?limit=501", "", 200, std(), `{"items":[],"nextCursor":null}`, "limit"},
		{"a code of another status", "POST", "/v1/events", event, 404, std(), `{"code":"Conflict","message":"m","target":"","detail":[]}`, "NotFound"},
		{"a detail of another status", "POST", "/v1/events", event, 400, std(), `{"code":"BadRequest","message":"m","target":"","detail":[{"code":"NonceReused","target":"","message":"m"}]}`, "value must be one of"},
		{"an unknown code", "POST", "/v1/events", event, 400, std(), `{"code":"Teapot","message":"m","target":"","detail":[]}`, "BadRequest"},
		{"no Retry-After", "POST", "/v1/events", event, 503, std(), `{"code":"ServiceUnavailable","message":"m","target":"","detail":[]}`, "Retry-After"},
		{"no ETag", "GET", "/v1/webhooks/x", "", 404, std(), `{"code":"NotFound","message":"m","target":"","detail":[]}`, ""},
		{"a 204 with a body", "DELETE", "/v1/webhooks/x", "", 204, std("Content-Type", ""), `{}`, "body"},
		{"an unknown path", "GET", "/v1/nothing", "", 404, std(), `{"code":"NotFound","message":"m","target":"","detail":[]}`, ""},
		{"an unknown path that is found", "GET", "/v1/nothing", "", 200, std(), `{}`, "status"},
		{"a wrong method without Allow", "PUT", "/v1/webhooks", "", 405, std(), `{"code":"MethodNotAllowed","message":"m","target":"","detail":[]}`, "Allow"},
		{"HEAD", "HEAD", "/v1/webhooks", "", 200, std(), ``, ""},
		{"HEAD of what is known", "HEAD", "/docs", "", 304, std("Content-Type", "", "ETag", tag), ``, ""},
		{"HEAD without an id", "HEAD", "/v1/webhooks", "", 200, std("X-Request-Id", ""), ``, "X-Request-Id"},
		{"an unknown path below /api/", "GET", "/api/v1/nothing", "", 404, std(), `{"code":404,"status":"NotFound","message":"m","target":"","detail":[]}`, ""},
		{"an envelope of another status", "GET", "/api/v1/nothing", "", 404, std(), `{"code":400,"status":"NotFound","message":"m","target":"","detail":[]}`, "value must be 404"},
		{"a search's error without its envelope", "GET", "/api/v1/articles/search", "", 503, std("Retry-After", "1"), `{"code":"ServiceUnavailable","message":"m","target":"","detail":[]}`, "missing property 'status'"},
		{"a search's refusal without a challenge", "GET", "/api/v1/articles/search", "", 401, std(), `{"code":401,"status":"Unauthorized","message":"m","target":"","detail":[]}`, "WWW-Authenticate"},
		{"a search with a signature", "GET", "/api/v1/articles/search?tenant_id=a&from=admin&keywords=x", "", 200, std(), `{"code":0,"status":"success","message":{"meta":{"current_page":1,"total_pages":0,"total_count":0},"items":[]}}`, "Authorization"},
		{"an export", "GET", "/v1/leads/export", "", 200, std("Content-Type", "application/x-ndjson", "Content-Disposition", `attachment; filename="leads.ndjson"`), `{"end":true,"count":0}` + "\n", ""},
		{"an export of something else", "GET", "/v1/leads/export", "", 200, std("Content-Type", "application/x-ndjson", "Content-Disposition", `attachment; filename="leads.ndjson"`), `{"leadsId":1}` + "\n" + `{"end":true,"count":1}` + "\n", "missing properties"},
		{"an object without an ETag", "POST", "/v1/journeys", `{"name":"n"}`, 201, std("Location", "/v1/journeys/jrn_1"), `{"id":"jrn_1","name":"n","draft":{"name":"n"},"publishedVersion":null,"status":"draft","createdAt":"2026-01-31T12:00:00.000Z","updatedAt":"2026-01-31T12:00:00.000Z"}`, "ETag"},
		{"an object with an ETag", "POST", "/v1/journeys", `{"name":"n"}`, 201, std("Location", "/v1/journeys/jrn_1", "ETag", tag), `{"id":"jrn_1","name":"n","draft":{"name":"n"},"publishedVersion":null,"status":"draft","createdAt":"2026-01-31T12:00:00.000Z","updatedAt":"2026-01-31T12:00:00.000Z"}`, ""},
		{"a time without milliseconds", "POST", "/v1/journeys", `{"name":"n"}`, 201, std("Location", "/v1/journeys/jrn_1", "ETag", tag), `{"id":"jrn_1","name":"n","draft":{"name":"n"},"publishedVersion":null,"status":"draft","createdAt":"2026-01-31T12:00:00Z","updatedAt":"2026-01-31T12:00:00.000Z"}`, "createdAt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := answer{status: tc.status, header: tc.header, raw: tc.raw}
			_ = json.Unmarshal([]byte(tc.raw), &a.json) // streams are none
			heard := &listener{TB: t}
			c.check(heard, tc.method, tc.target, signed, tc.body, a)
			if tc.fault == "" && heard.b.Len() > 0 || !strings.Contains(heard.b.String(), tc.fault) {
				t.Errorf("want %q, heard %s", tc.fault, heard.b.String())
			}
		})
	}
	if missing := c.unseen(); !slices.Contains(missing, "ErrorCode InternalError") || !slices.Contains(missing, "DetailCode GrantMissing") ||
		!slices.Contains(missing, "createLead 201 of POST /v1/leads") || slices.ContainsFunc(missing, func(s string) bool { return strings.HasPrefix(s, "acceptEvent 202") }) {
		t.Errorf("unseen: %q", missing)
	}
}

// listener is a test that only notes its errors.
type listener struct {
	testing.TB
	b bytes.Buffer
}

func (l *listener) Helper() {}

func (l *listener) Errorf(format string, args ...any) { fmt.Fprintf(&l.b, format, args...) }
