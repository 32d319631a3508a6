package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"waypost"
	"waypost/api"
)

// file is what the gateway serves.
const file = "../gateway/openapi.yaml"

var update = flag.Bool("update", false, "write the generated parts of openapi.yaml")

// described are the types that openapi.yaml has schemas of, by the names of these (ADR 23).
var described = []struct {
	name string
	of   any
}{
	{"WebhookBody", api.WebhookBody{}},
	{"WebhookPatchBody", api.WebhookPatchBody{}},
	{"RetryBody", api.RetryBody{}},
	{"Webhook", api.Webhook{}},
	{"WebhookList", api.List[api.Webhook]{}},
	{"SubscriptionBody", api.SubscriptionBody{}},
	{"SubscriptionPatchBody", api.SubscriptionPatchBody{}},
	{"Subscription", api.Subscription{}},
	{"SubscriptionList", api.List[api.Subscription]{}},
	{"SegmentBody", api.SegmentBody{}},
	{"Segment", api.Segment{}},
	{"SegmentList", api.List[api.Segment]{}},
	{"SegmentCount", api.SegmentCount{}},
	{"SuppressionBody", api.SuppressionBody{}},
	{"Suppression", api.Suppression{}},
	{"SuppressionList", api.List[api.Suppression]{}},
	{"WebhookHealth", api.WebhookHealth{}},
	{"AttemptStats", api.AttemptStats{}},
	{"WebhookHistory", api.WebhookHistory{}},
	{"AttemptHistory", api.AttemptHistory{}},
	{"AttemptInterval", api.AttemptInterval{}},
	{"WebhookInterval", api.WebhookInterval{}},
	{"Trial", api.Trial{}},
	{"AuditEntry", api.AuditEntry{}},
	{"AuditList", api.List[api.AuditEntry]{}},
	{"TokenBody", api.TokenBody{}},
	{"Token", api.Token{}},
}

// named are the types of members whose schemas in openapi.yaml are written by hand.
var named = map[reflect.Type]string{
	reflect.TypeFor[api.Time]():         "Time",
	reflect.TypeFor[api.TimeOrNull]():   "TimeOrNull",
	reflect.TypeFor[api.Cursor]():       "Cursor",
	reflect.TypeFor[api.ErrorClass]():   "ErrorClass",
	reflect.TypeFor[waypost.Duration](): "Duration",
	reflect.TypeFor[waypost.RetryOn]():  "RetryOn",

	reflect.TypeFor[api.StoredProblems](): "StoredProblems",
	reflect.TypeFor[waypost.Happening]():  "Happening",
	reflect.TypeFor[waypost.Origin]():     "Origin",
}

// The schemas of openapi.yaml are those of the types in package api. `go generate ./api` writes them.
func TestOpenAPIIsGenerated(t *testing.T) {
	t.Parallel()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := generated(before)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, before) {
		return
	}
	if !*update {
		t.Fatalf("openapi.yaml is not what the types of package api say: run go generate ./api\n%s", firstDifference(before, got))
	}
	if err := os.WriteFile(file, got, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every struct of the package is a schema of openapi.yaml, or stands in one: what nobody describes is not the wire.
func TestEveryTypeIsDescribed(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	var reach func(t reflect.Type)
	reach = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice:
			reach(t.Elem())
		case reflect.Struct:
			name, _, _ := strings.Cut(t.Name(), "[")
			reached[name] = true
			for i := range t.NumField() {
				reach(t.Field(i).Type)
			}
		}
	}
	for _, d := range described {
		reach(reflect.TypeOf(d.of))
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	types := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType {
				return true
			}
			if _, isStruct := spec.Type.(*ast.StructType); isStruct {
				types++
				if !reached[spec.Name.Name] {
					t.Errorf("%s is in no schema: add it to described", spec.Name.Name)
				}
			}
			return true
		})
	}
	if types < 20 {
		t.Errorf("only %d types were found", types)
	}
}

// firstDifference shows the first lines that are not the same.
func firstDifference(before, after []byte) string {
	a, b := strings.Split(string(before), "\n"), strings.Split(string(after), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, a[i], b[i])
		}
	}
	return "one is longer"
}

// generated is openapi.yaml with the schemas of described as their types say. Examples stay as they are written.
func generated(document []byte) ([]byte, error) {
	s, err := newSchemas()
	if err != nil {
		return nil, err
	}
	text := string(document)
	for _, d := range described {
		begin, end, ok := schemaIn(text, d.name)
		if !ok {
			return nil, fmt.Errorf("openapi.yaml has no schema %s: write its name, and perhaps examples, where it is to stand", d.name)
		}
		body, err := s.write(d.of)
		if err != nil {
			return nil, fmt.Errorf("write schema %s: %w", d.name, err)
		}
		if at := exampleLine.FindStringIndex(text[begin:end]); at != nil {
			body += text[begin+at[0] : end]
		}
		text = text[:begin] + "    " + d.name + ":\n" + body + text[end:]
	}
	return []byte(text), nil
}

var (
	exampleLine = regexp.MustCompile(`(?m)^      examples?:`)
	schemaEnd   = regexp.MustCompile(`(?m)^( {0,4}\S.*)?$`)
)

// schemaIn finds the lines of a schema.
func schemaIn(text, name string) (begin, end int, ok bool) {
	schemas := strings.Index(text, "\n  schemas:\n")
	head := "\n    " + name + ":"
	at := strings.Index(text[schemas:], head)
	if at < 0 {
		return 0, 0, false
	}
	begin = schemas + at + 1
	behind := begin + strings.Index(text[begin:], "\n") + 1
	return begin, behind + schemaEnd.FindStringIndex(text[behind:])[0], true
}

// schemas makes schemas of types.
type schemas struct {
	reflector jsonschema.Reflector
	names     map[reflect.Type]string
}

func newSchemas() (*schemas, error) {
	s := &schemas{names: map[reflect.Type]string{}}
	for t, name := range named {
		s.names[t] = name
	}
	for _, d := range described {
		s.names[reflect.TypeOf(d.of)] = d.name
	}
	s.reflector = jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true,
		Lookup: func(t reflect.Type) jsonschema.ID {
			if name, ok := s.names[t]; ok {
				return jsonschema.ID("#/components/schemas/" + name)
			}
			return jsonschema.EmptyID
		},
		Mapper: spelled,
	}
	if err := s.reflector.AddGoComments("waypost/api", ".", jsonschema.WithFullComment()); err != nil {
		return nil, err
	}
	for _, source := range []string{"../webhook.go"} {
		if err := s.reflector.AddGoComments("waypost/api", source, jsonschema.WithFullComment()); err != nil {
			return nil, err
		}
	}
	s.reflector.LookupComment = s.comment
	return s, nil
}

// sources are the types whose fields others have.
var sources = map[reflect.Type]reflect.Type{
	reflect.TypeFor[api.WebhookPatchBody](): reflect.TypeFor[api.WebhookBody](),
	reflect.TypeFor[api.RetryBody]():        reflect.TypeFor[waypost.Retry](),

	reflect.TypeFor[api.SubscriptionPatchBody](): reflect.TypeFor[api.SubscriptionBody](),
}

// comment is what is said of a type or a field, in the words of openapi.yaml: "X is a thing" becomes "A thing".
func (s *schemas) comment(t reflect.Type, field string) string {
	if source, ok := sources[t]; ok && field != "" {
		t = source
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	if field != "" {
		return s.reflector.CommentMap[t.PkgPath()+"."+name+"."+field]
	}
	text := s.reflector.CommentMap[t.PkgPath()+"."+name]
	text = regexp.MustCompile(`^`+name+` (is|are|says|has) `).ReplaceAllString(text, "")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// spelled is the schema of a type that says itself what it is.
func spelled(t reflect.Type) *jsonschema.Schema {
	v, ok := reflect.Zero(t).Interface().(interface{ Schema() string })
	if !ok {
		return nil
	}
	var value map[string]any
	if err := yaml.Unmarshal([]byte(v.Schema()), &value); err != nil {
		panic(fmt.Errorf("schema of %s: %w", t, err))
	}
	return &jsonschema.Schema{Extras: value}
}

// kind is what a type's name says of its members.
type kind int

const (
	answered kind = iota // all are there
	sent                 // null stands for one that is absent
	patched              // and all are optional
)

func kindOf(t reflect.Type) kind {
	switch {
	case strings.HasSuffix(t.Name(), "PatchBody"):
		return patched
	case strings.HasSuffix(t.Name(), "Body"):
		return sent
	}
	return answered
}

// write returns the lines of a type's schema below its name.
func (s *schemas) write(v any) (string, error) {
	t := reflect.TypeOf(v)
	k := kindOf(t)
	s.reflector.RequiredFromJSONSchemaTags = k != answered
	// Lookup would give a reference to the type itself.
	name := s.names[t]
	delete(s.names, t)
	schema := s.reflector.Reflect(v)
	s.names[t] = name
	schema.Version = ""
	defs := schema.Definitions
	schema.Definitions = nil
	n, err := s.node(schema, defs, t, k)
	if err != nil {
		return "", err
	}
	set(n, "additionalProperties", scalar(false))
	layOut(n, 6, true)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return "", err
	}
	var lines strings.Builder
	for line := range strings.Lines(b.String()) {
		if strings.TrimSpace(line) != "" {
			lines.WriteString("      ")
		}
		lines.WriteString(wrapped(line))
	}
	return lines.String(), nil
}

// node is a schema of a struct as YAML: members that can be null say so, and definitions that have no name in
// openapi.yaml stand where they are used.
func (s *schemas) node(schema *jsonschema.Schema, defs jsonschema.Definitions, t reflect.Type, k kind) (*yaml.Node, error) {
	properties := schema.Properties
	schema.Properties = nil
	n, err := toYAML(schema)
	if err != nil || properties == nil {
		return n, err
	}
	if k == patched {
		remove(n, "required")
	}
	members := &yaml.Node{Kind: yaml.MappingNode}
	fields := fieldTypes(t)
	for p := properties.Oldest(); p != nil; p = p.Next() {
		field := fields[p.Key]
		member, err := s.member(p.Value, defs, field, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Key, err)
		}
		if k == patched {
			remove(member, "default")
		}
		if k == answered && canBeNull(field) || k != answered && !slices.Contains(schema.Required, p.Key) {
			orNull(member)
		}
		set(members, p.Key, member)
	}
	set(n, "properties", members)
	return n, nil
}

// canBeNull tells whether a member of an answer can be null. Schemas that are written by hand say it themselves.
func canBeNull(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem() != reflect.TypeFor[api.StoredProblems]() || strings.HasSuffix(t.Name(), "OrNull")
}

// member is the schema of a member of a type.
func (s *schemas) member(schema *jsonschema.Schema, defs jsonschema.Definitions, t reflect.Type, k kind) (*yaml.Node, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if schema.Items != nil {
		list := *schema // others may have the same
		list.Items = nil
		n, err := toYAML(&list)
		if err != nil {
			return nil, err
		}
		item, err := s.member(schema.Items, defs, t.Elem(), k)
		set(n, "items", item)
		return n, err
	}
	definition, isLocal := strings.CutPrefix(schema.Ref, "#/$defs/")
	if !isLocal {
		n, err := toYAML(schema)
		if each := get(n, "additionalProperties"); each != nil && k == patched { // null takes one away
			orNull(each)
			remove(n, "maxProperties")
		}
		return n, err
	}
	inner := *defs[definition]
	inner.Description = schema.Description
	return s.node(&inner, defs, t, k)
}

// fieldTypes are the types of the members of a struct.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			types[name] = f.Type
		}
	}
	return types
}

// toYAML is a schema as YAML; what a tag gives as a text is a number where the keyword holds one.
func toYAML(schema *jsonschema.Schema) (*yaml.Node, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	n := document.Content[0]
	if n.Kind != yaml.MappingNode { // of a type that can be anything
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	for _, keyword := range []string{"minProperties", "maxProperties"} {
		if v := get(n, keyword); v != nil {
			v.Tag = "!!int"
		}
	}
	plain(n)
	return n, nil
}
