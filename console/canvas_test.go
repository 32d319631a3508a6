package console

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestMembers holds the members that the YAML editor completes against the definition's schema.
func TestMembers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../gateway/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Ref        string             `yaml:"$ref"`
		Const      any                `yaml:"const"`
		OneOf      []*schema          `yaml:"oneOf"`
		Items      *schema            `yaml:"items"`
		Properties map[string]*schema `yaml:"properties"`
	}
	var api struct {
		Components struct {
			Schemas map[string]*schema `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	var walk func(name string, s *schema)
	walk = func(name string, s *schema) {
		const prefix = "#/components/schemas/"
		if len(s.Ref) > len(prefix) {
			s = api.Components.Schemas[s.Ref[len(prefix):]]
		}
		for _, one := range s.OneOf {
			walk(name, one)
		}
		if s.Items != nil {
			walk(name, s.Items)
		}
		if kind := s.Properties["type"]; kind != nil && kind.Const != nil {
			name = kind.Const.(string)
		}
		if len(s.Properties) > 0 {
			want[name] = slices.Sorted(maps.Keys(s.Properties))
		}
		for member, of := range s.Properties {
			walk(member, of)
		}
	}
	walk("journey", api.Components.Schemas["JourneyDefinition"])
	data, err := os.ReadFile("canvas/src/members.json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]string
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for _, members := range got {
		slices.Sort(members)
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		text, _ := json.MarshalIndent(want, "", "  ") // strings have a JSON form
		t.Errorf("canvas/src/members.json has not what openapi.yaml says of JourneyDefinition, which is (in any order):\n%s", text)
	}
}
