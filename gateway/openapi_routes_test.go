package gateway

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"waypost"
)

func openAPIModel(t *testing.T) *v3.Document {
	t.Helper()
	document, err := libopenapi.NewDocument(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	return &model.Model
}

// isAsset tells whether a page is a file of /docs, which openapi.yaml does not
// describe.
func isAsset(p page) bool { return strings.HasPrefix(p.path, "/docs/") }

var pathParameter = regexp.MustCompile(`:(\w+)`)

// The route table and openapi.yaml say the same.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	t.Parallel()
	var want []string
	for _, rt := range routes {
		want = append(want, describe(rt))
	}
	for _, p := range pages {
		if !isAsset(p) {
			want = append(want, describe(route{method: http.MethodGet, path: p.path, body: noBody}))
		}
	}
	var got []string
	operations := map[string]bool{}
	for path, item := range openAPIModel(t).Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			got = append(got, describeOperation(t, strings.ToUpper(method), path, item, op))
			if op.OperationId == "" || operations[op.OperationId] {
				t.Errorf("%s %s: operationId %q is missing or doubled", method, path, op.OperationId)
			}
			operations[op.OperationId] = true
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("routes.go has, openapi.yaml has not: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("openapi.yaml has, routes.go has not: %s", line)
		}
	}
}

// describe tells all that openapi.yaml must say of a route.
func describe(rt route) string {
	headers := []string{"X-Request-Id"}
	media := []string{}
	statuses := []int{400, 429}
	access := "signature"
	switch {
	case rt.handle == nil:
		access = "nothing"
		headers = append(headers, "If-None-Match")
		statuses = append(statuses, 304)
	case rt.grant == byToken:
		access = "bearer"
		statuses = append(statuses, 401, 500, 503)
	default:
		headers = append(headers, "X-Cloud-Stage", "X-Cloud-Actor")
		statuses = append(statuses, 401, 500, 503)
	}
	switch rt.method {
	case http.MethodPost:
		headers = append(headers, "Idempotency-Key")
		statuses = append(statuses, 409, 413, 415)
	case http.MethodPatch, http.MethodPut, http.MethodDelete:
		headers = append(headers, "If-Match")
		statuses = append(statuses, 412, 413, 415, 428)
	}
	// What an article's PUT does not find, it makes.
	if strings.Contains(rt.path, ":") && rt.body != articleBody {
		statuses = append(statuses, 404)
	}
	if rt.body != noBody {
		media = slices.Sorted(slices.Values(rt.body.media))
	}
	slices.Sort(statuses)
	query := slices.Sorted(slices.Values(rt.query))
	slices.Sort(headers)
	return fmt.Sprintf("%s %s needs %s, grant %q query %q headers %q body %q required %t, at least the statuses %d",
		rt.method, pathParameter.ReplaceAllString(rt.path, "{$1}"), access, rt.grant, query, headers, media, rt.body.required, slices.Compact(statuses))
}

func describeOperation(t *testing.T, method, path string, item *v3.PathItem, op *v3.Operation) string {
	t.Helper()
	var query, headers, inPath []string
	for _, p := range slices.Concat(item.Parameters, op.Parameters) {
		switch p.In {
		case "query":
			query = append(query, p.Name)
		case "path":
			inPath = append(inPath, "{"+p.Name+"}")
		case "header":
			if p.Name != "Prefer" {
				headers = append(headers, p.Name)
			}
		}
	}
	for _, p := range inPath {
		if !strings.Contains(path, p) {
			t.Errorf("%s has no parameter %s", path, p)
		}
	}
	if n := strings.Count(path, "{"); n != len(inPath) {
		t.Errorf("%s has %d parameters of %d", path, len(inPath), n)
	}
	grant, access := "", "signature"
	if node := op.Extensions.GetOrZero("x-grant"); node != nil {
		grant = node.Value
		if !strings.Contains(op.Description, "`"+grant+"`") {
			t.Errorf("%s %s: the description does not name its grant", method, path)
		}
	} else if op.GoLow().Security.KeyNode == nil {
		t.Errorf("%s %s needs neither a grant nor no signature", method, path)
	}
	if op.GoLow().Security.KeyNode != nil {
		access = "nothing"
		for _, s := range op.Security {
			access = strings.Join(slices.Collect(s.Requirements.KeysFromOldest()), " and ")
		}
	}
	media, required := []string{}, false
	if op.RequestBody != nil {
		media = slices.Collect(op.RequestBody.Content.KeysFromOldest())
		required = op.RequestBody.Required != nil && *op.RequestBody.Required
	}
	var statuses []int
	for status := range op.Responses.Codes.KeysFromOldest() {
		n, err := strconv.Atoi(status)
		if err != nil {
			t.Fatal(err)
		}
		// Some routes can also answer that a name is taken, that what the body names or the
		// only object of a path does not exist, and that a birthday is in the future.
		also := n == 409 && method != http.MethodPost || n == 404 && (path == "/v1/events" || path == "/v1/subscriptions" || path == "/v1/articles/reindex") || n == 422
		if (n == 304 || n >= 400) && !also {
			statuses = append(statuses, n)
		}
	}
	for _, list := range [][]string{query, headers, media} {
		slices.Sort(list)
	}
	slices.Sort(statuses)
	return fmt.Sprintf("%s %s needs %s, grant %q query %q headers %q body %q required %t, at least the statuses %d", method, path, access, grant, query, headers, media, required, statuses)
}

// openapi.yaml has the codes of error.go, each with the status that it is answered
// with.
func TestOpenAPIHasTheCodes(t *testing.T) {
	t.Parallel()
	model := openAPIModel(t)
	for _, name := range []string{"ErrorCode", "DetailCode"} {
		var got []string
		for _, node := range model.Components.Schemas.GetOrZero(name).Schema().Enum {
			got = append(got, node.Value)
		}
		want := constantsOf(t, name)
		slices.Sort(got)
		slices.Sort(want)
		if len(want) < 10 || !slices.Equal(got, want) {
			t.Errorf("%s in openapi.yaml %q,\nin error.go %q", name, got, want)
		}
	}
	byStatus := map[string]string{}
	for code, status := range statuses {
		byStatus[strconv.Itoa(status)] = string(code)
	}
	for name, response := range model.Components.Responses.FromOldest() {
		if code, isSearch := strings.CutPrefix(name, "Search"); isSearch && response.Content.GetOrZero("application/json").Schema.Schema().AllOf[0].GetReference() != "#/components/schemas/SearchError" {
			t.Errorf("%s: %s has no envelope", name, code)
		}
	}
	for path, item := range model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			for status, response := range op.Responses.Codes.FromOldest() {
				name := byStatus[status]
				if strings.HasPrefix(path, apiPrefix) {
					name = "Search" + name
				}
				if status >= "400" && response.GoLow().GetReference() != "#/components/responses/"+name {
					t.Errorf("%s %s: %s is %q", method, path, status, response.GoLow().GetReference())
				}
			}
		}
	}
	for _, code := range constantsOf(t, "ErrorCode") {
		if statuses[waypost.ErrorCode(code)] == 0 {
			t.Errorf("%s has no status", code)
		}
		if model.Components.Responses.GetOrZero(code) == nil {
			t.Errorf("%s has no answer in openapi.yaml", code)
		}
	}
}

// constantsOf returns the values of error.go's constants of a type.
func constantsOf(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isValue := n.(*ast.ValueSpec)
		if !isValue {
			return true
		}
		if of, isName := spec.Type.(*ast.Ident); isName && of.Name == name {
			for _, v := range spec.Values {
				s, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, s)
			}
		}
		return true
	})
	return values
}
