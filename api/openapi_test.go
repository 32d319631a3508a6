package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
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
	{"WebhookList", api.WebhookList{}},
	{"WebhookHealth", api.WebhookHealth{}},
	{"AttemptStats", api.AttemptStats{}},
	{"WebhookHistory", api.WebhookHistory{}},
	{"AttemptHistory", api.AttemptHistory{}},
	{"AttemptInterval", api.AttemptInterval{}},
	{"WebhookInterval", api.WebhookInterval{}},
	{"Trial", api.Trial{}},
}

// named are the types of members whose schemas in openapi.yaml are written by hand.
var named = map[reflect.Type]string{
	reflect.TypeFor[api.Time]():         "Time",
	reflect.TypeFor[api.TimeOrNull]():   "TimeOrNull",
	reflect.TypeFor[api.Cursor]():       "Cursor",
	reflect.TypeFor[api.ErrorClass]():   "ErrorClass",
	reflect.TypeFor[waypost.Duration](): "Duration",
	reflect.TypeFor[waypost.RetryOn]():  "RetryOn",
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
	answered   kind = iota // all are there
	sent                   // null stands for one that is absent
	merged7396             // and all are optional
)

func kindOf(t reflect.Type) kind {
	switch {
	case strings.HasSuffix(t.Name(), "PatchBody"):
		return merged7396
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
	if k == merged7396 {
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
		null := field.Kind() == reflect.Pointer || strings.HasSuffix(field.Name(), "OrNull") && field.Kind() != reflect.Struct
		if k != answered {
			null = !slices.Contains(schema.Required, p.Key)
		}
		if k == merged7396 {
			remove(member, "default")
		}
		if null || field == reflect.TypeFor[api.TimeOrNull]() {
			orNull(member)
		}
		set(members, p.Key, member)
	}
	set(n, "properties", members)
	return n, nil
}

// member is the schema of a member of a type.
func (s *schemas) member(schema *jsonschema.Schema, defs jsonschema.Definitions, t reflect.Type, k kind) (*yaml.Node, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if schema.Items != nil {
		items := schema.Items
		schema.Items = nil
		n, err := toYAML(schema)
		if err != nil {
			return nil, err
		}
		item, err := s.member(items, defs, t.Elem(), k)
		set(n, "items", item)
		return n, err
	}
	definition, isLocal := strings.CutPrefix(schema.Ref, "#/$defs/")
	if !isLocal {
		n, err := toYAML(schema)
		if each := get(n, "additionalProperties"); each != nil && k == merged7396 { // null takes one away
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

// plain leaves it to the encoder how scalars are written.
func plain(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Style = scalar(n.Value).Style
		if strings.ContainsAny(n.Value, ",:'#") && !strings.Contains(n.Value, `\`) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, c := range n.Content {
		plain(c)
	}
}

func scalar(v any) *yaml.Node {
	n := &yaml.Node{}
	if err := n.Encode(v); err != nil {
		panic(err)
	}
	return n
}

func place(n *yaml.Node, key string) int {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func get(n *yaml.Node, key string) *yaml.Node {
	if i := place(n, key); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

func set(n *yaml.Node, key string, value *yaml.Node) {
	if i := place(n, key); i >= 0 {
		n.Content[i+1] = value
		return
	}
	n.Content = append(n.Content, scalar(key), value)
}

func remove(n *yaml.Node, key string) {
	if i := place(n, key); i >= 0 {
		n.Content = slices.Delete(n.Content, i, i+2)
	}
}

// orNull lets a schema's value be null, too.
func orNull(n *yaml.Node) {
	if list := get(n, "enum"); list != nil {
		list.Content = append(list.Content, scalar(nil))
	}
	if of := get(n, "type"); of != nil {
		if of.Kind != yaml.SequenceNode {
			of = sequence(of)
		}
		of.Content = append(of.Content, scalar("null"))
		set(n, "type", flow(of))
		return
	}
	ref := get(n, "$ref")
	if ref == nil || get(n, "description") == nil && strings.HasSuffix(ref.Value, "OrNull") {
		return
	}
	of := &yaml.Node{Kind: yaml.MappingNode}
	ref.Value = strings.TrimSuffix(ref.Value, "OrNull")
	set(of, "$ref", ref)
	null := &yaml.Node{Kind: yaml.MappingNode}
	set(null, "type", scalar("null"))
	remove(n, "$ref")
	set(n, "oneOf", sequence(of, null))
}

func sequence(nodes ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: nodes}
}

func flow(n *yaml.Node) *yaml.Node {
	n.Style = yaml.FlowStyle
	return n
}

// keywords are in the order in which a schema has them.
var keywords = []string{
	"$ref", "oneOf", "type", "const", "enum", "format", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength",
	"pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default", "description", "additionalProperties",
	"required", "properties", "items",
}

const lineLength = 140

// lengthOf is how long a node is on one line.
func lengthOf(n *yaml.Node) int {
	text, err := yaml.Marshal(n)
	if err != nil {
		panic(err)
	}
	return len(text)
}

// layOut brings a schema's keywords in order, and writes on one line what fits on one.
func layOut(n *yaml.Node, indent int, top bool) {
	type pair struct{ key, value *yaml.Node }
	var pairs []pair
	for i := 0; i < len(n.Content); i += 2 {
		pairs = append(pairs, pair{n.Content[i], n.Content[i+1]})
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return slices.Index(keywords, a.key.Value) - slices.Index(keywords, b.key.Value)
	})
	n.Content = nil
	long := top // or what is in it is not on one line
	for _, p := range pairs {
		n.Content = append(n.Content, p.key, p.value)
		switch p.key.Value {
		case "description":
			if strings.Contains(p.value.Value, "\n") {
				p.value.Value, p.value.Style = p.value.Value+"\n", yaml.LiteralStyle
				long = true
			}
		case "properties":
			long = true
			for i := 1; i < len(p.value.Content); i += 2 {
				layOut(p.value.Content[i], indent+4+len(p.value.Content[i-1].Value), false)
			}
		case "items", "additionalProperties":
			if p.value.Kind == yaml.MappingNode {
				layOut(p.value, indent+2, false)
				long = long || p.value.Style != yaml.FlowStyle
			}
		case "required", "oneOf", "enum", "type":
			flow(p.value)
		}
	}
	if !long && lengthOf(flow(n)) > lineLength-indent {
		n.Style = 0
	}
}

// wrapped breaks a list that is longer than a line.
func wrapped(line string) string {
	head, list, isList := strings.Cut(line, "required: [")
	if len(line) <= lineLength || !isList {
		return line
	}
	var b strings.Builder
	b.WriteString(head + "required:\n")
	at := head + "        ["
	for i, name := range strings.SplitAfter(list, ", ") {
		if i > 0 && len(at)+len(name) > lineLength-6 {
			b.WriteString(strings.TrimRight(at, " ") + "\n")
			at = head + "         "
		}
		at += name
	}
	return b.String() + at
}
