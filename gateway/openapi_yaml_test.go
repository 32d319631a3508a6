package gateway

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	yaml11 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// Parsers of YAML 1.1, such as PyYAML, read openapi.yaml as those of 1.2 do.
func TestOpenAPIReadsTheSameInYAML11(t *testing.T) {
	t.Parallel()
	var old, current any
	if err := yaml11.Unmarshal(openAPI, &old); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(openAPI, &current); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plainYAML(old), plainYAML(current)) {
		t.Error("the two parsers differ; see the lines below")
	}
	for _, fault := range ambiguousScalars(t, openAPI) {
		t.Error(fault)
	}
}

// The check finds each kind of scalar that YAML 1.1 and 1.2 read differently.
func TestAmbiguousScalars(t *testing.T) {
	t.Parallel()
	for _, scalar := range []string{
		"on", "Off", "yes", "NO", "y", "N", "True", "1:30", "1:30.5", "2026-11-29", "2026-11-29T08:00:00Z", "0777", "0o17", "0b1", "0x1F", "1_000", "1e3", ".5",
		"+1", "~", "", "Null", ".inf", ".NaN", "=", "<<",
	} {
		if got := ambiguousScalars(t, []byte("a: {b: "+scalar+"}")); len(got) != 1 {
			t.Errorf("%q: %q", scalar, got)
		}
	}
	if got := ambiguousScalars(t, []byte("on: 1")); len(got) != 1 {
		t.Errorf("a key: %q", got)
	}
	for _, scalar := range []string{`"on"`, "true", "null", "0", "-12", "1.50", "one", "3.1.0", "'2026-11-29'", "2026-11-29 and later"} {
		if got := ambiguousScalars(t, []byte("a: "+scalar)); len(got) != 0 {
			t.Errorf("%s: %q", scalar, got)
		}
	}
}

// plainYAML gives the maps of both parsers one type.
func plainYAML(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := map[any]any{}
		for key, value := range v {
			out[key] = plainYAML(value)
		}
		return out
	case map[string]any:
		out := map[any]any{}
		for key, value := range v {
			out[key] = plainYAML(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = plainYAML(value)
		}
		return out
	}
	return v
}

var (
	// implicitYAML11 matches the plain scalars that YAML 1.1 reads as no text
	// (https://yaml.org/type/), and numbers of YAML 1.2.
	implicitYAML11 = regexp.MustCompile(`^(?:(?i:y|yes|n|no|true|false|on|off|~|null|[-+]?\.inf|\.nan)|=|<<|` +
		`[-+]?[0-9_]*[.]?[0-9][0-9_.]*(?:[eE][-+]?[0-9]+)?|[-+]?0[xob][0-9a-fA-F_]+|` +
		`[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\d{4}-\d\d?-\d\d?(?:(?:[Tt]|[ \t]+)\d\d?:.*)?|)$`)
	// sameYAML matches those among them that both versions read as the same value.
	sameYAML = regexp.MustCompile(`^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)$`)
	// version matches a text of two points, which is a number in no version.
	version = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
)

// ambiguousScalars names the plain scalars that are a text in one version of YAML, and something else
// or another value in the other.
func ambiguousScalars(t *testing.T, document []byte) []string {
	t.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		t.Fatal(err)
	}
	var faults []string
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			if implicitYAML11.MatchString(n.Value) && !sameYAML.MatchString(n.Value) && !version.MatchString(n.Value) {
				faults = append(faults, fmt.Sprintf("line %d: write %s in quotes: parsers of YAML 1.1 and 1.2 read it differently", n.Line, strconv.Quote(n.Value)))
			}
		}
		for _, child := range n.Content {
			visit(child)
		}
	}
	visit(&root)
	return faults
}

// What stands in a schema is a word of JSON Schema or OpenAPI: an unquoted comma in a flow
// mapping cuts a description and makes a member of the rest. What stands beside schemas is
// held against OpenAPI's own schema by TestOpenAPI.
func TestOpenAPISchemasHaveNoUnknownWords(t *testing.T) {
	t.Parallel()
	var document any
	if err := yaml.Unmarshal(openAPI, &document); err != nil {
		t.Fatal(err)
	}
	faults, schemas := unknownWords(document)
	for _, fault := range faults {
		t.Error(fault)
	}
	if schemas < 1000 {
		t.Errorf("looked at %d schemas", schemas)
	}
}

// The check finds a description that was cut, wherever a schema can stand.
func TestUnknownWords(t *testing.T) {
	t.Parallel()
	const cut = "{type: integer, description: How many of 1,000 there are.}"
	for _, document := range []string{
		"components: {schemas: {A: " + cut + "}}",
		"components: {schemas: {A: {properties: {schema: " + cut + "}}}}",
		"components: {schemas: {A: {oneOf: [{items: {additionalProperties: " + cut + "}}]}}}",
		"paths: {/a: {get: {parameters: [{name: a, schema: " + cut + "}]}}}",
		"paths: {/a: {get: {responses: {'200': {content: {application/json: {schema: " + cut + "}}}}}}}",
		"components: {headers: {A: {schema: " + cut + "}}}",
	} {
		var v any
		if err := yaml.Unmarshal([]byte(document), &v); err != nil {
			t.Fatal(err)
		}
		if faults, _ := unknownWords(v); len(faults) != 1 {
			t.Errorf("%s: %q", document, faults)
		}
	}
}

// Words of a schema (JSON Schema 2020-12 and the OpenAPI 3.1 base vocabulary), by what they hold.
var (
	plainWords = []string{
		"$ref", "$comment", "type", "const", "enum", "default", "example", "examples", "title", "description", "format", "deprecated", "readOnly", "writeOnly",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems",
		"minContains", "maxContains", "minProperties", "maxProperties", "required", "dependentRequired", "contentEncoding", "contentMediaType",
		"discriminator", "externalDocs", "xml",
	}
	schemaWords = []string{
		"items", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "not", "if", "then", "else", "contentSchema",
	}
	listWords = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	mapWords  = []string{"properties", "patternProperties", "dependentSchemas", "$defs"}
)

// unknownWords finds the schemas of a document, and members of theirs that are no word.
func unknownWords(document any) (faults []string, schemas int) {
	var schema func(path string, v any)
	schema = func(path string, v any) {
		schemas++
		members, _ := v.(map[string]any)
		for word, value := range members {
			at := path + "." + word
			switch {
			case slices.Contains(plainWords, word):
			case slices.Contains(schemaWords, word):
				schema(at, value)
			case slices.Contains(listWords, word):
				for i, each := range value.([]any) {
					schema(fmt.Sprintf("%s[%d]", at, i), each)
				}
			case slices.Contains(mapWords, word):
				for name, each := range value.(map[string]any) {
					schema(at+"."+name, each)
				}
			default:
				faults = append(faults, fmt.Sprintf("%s has the member %q, which is no word of a schema; was a description cut at a comma?", path, word))
			}
		}
	}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				switch at := path + "." + key; {
				case key == "schema":
					schema(at, value)
				case at == ".components.schemas":
					for name, each := range value.(map[string]any) {
						schema(at+"."+name, each)
					}
				case key != "example" && key != "examples":
					visit(at, value)
				}
			}
		case []any:
			for i, value := range v {
				visit(fmt.Sprintf("%s[%d]", path, i), value)
			}
		}
	}
	visit("", document)
	return faults, schemas
}
