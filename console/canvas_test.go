package console

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"waypost"
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
		if len(s.Properties) == 0 { // else they are rules about these properties
			for _, one := range s.OneOf {
				walk(name, one)
			}
		}
		if s.Items != nil {
			walk(name, s.Items)
		}
		if kind := s.Properties["type"]; kind != nil && kind.Const != nil {
			name = kind.Const.(string)
		}
		delete(s.Properties, "comments") // people write them behind a #
		if len(s.Properties) > 0 {
			want[name] = slices.Sorted(maps.Keys(s.Properties))
		}
		for member, of := range s.Properties {
			walk(member, of)
		}
	}
	walk("journey", api.Components.Schemas["JourneyDefinition"])
	got := membersOf(t)
	for _, members := range got {
		slices.Sort(members)
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		text, _ := json.MarshalIndent(want, "", "  ") // strings have a JSON form
		t.Errorf("canvas/src/members.json and nodes.json have not what openapi.yaml says of JourneyDefinition, which is (in any order):\n%s", text)
	}
}

// membersOf are the members of a definition and its parts that the canvas knows, by what has them.
func membersOf(t *testing.T) map[string][]string {
	t.Helper()
	var all map[string][]string
	var types struct{ Members map[string][]string }
	for file, into := range map[string]any{"members.json": &all, "nodes.json": &types} {
		text, err := os.ReadFile("canvas/src/" + file)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	maps.Copy(all, types.Members)
	return all
}

// The editor's style sheets have a nonce of their answer; no other page has one.
func TestNonce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleMarketer)
	s.answers(map[string]string{journeysPath + "jrn_1": `{"id":"jrn_1","name":"Test","draft":{"name":"Test","nodes":[]}}`})
	given := regexp.MustCompile(` nonce="(\w{20,})"`)
	seen := map[string]bool{}
	for _, page := range []string{"text", "edit", "text"} {
		got := v.get("/journeys/jrn_1/" + page)
		nonce := given.FindStringSubmatch(got.Body)
		if nonce == nil || seen[nonce[1]] || !strings.Contains(got.Header.Get("Content-Security-Policy"), "style-src 'self' 'nonce-"+nonce[1]+"';") {
			t.Fatalf("%s: %q, %q", page, nonce, got.Header.Get("Content-Security-Policy"))
		}
		seen[nonce[1]] = true
	}
	if got := v.get("/journeys/jrn_1/publish"); got.Header.Get("Content-Security-Policy") != policy || given.MatchString(got.Body) {
		t.Errorf("publish: %q", got.Header.Get("Content-Security-Policy"))
	}
}

// What a person has written is kept under another name, whatever it is called.
func TestKeep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleMarketer)
	var sent []byte
	s.answering(func(r *http.Request) (int, string) {
		switch r.Method + r.URL.Path {
		case "GET" + journeysPath + "jrn_1":
			return http.StatusOK, `{"id":"jrn_1","name":"Test"}`
		case "POST/v1/journeys":
			sent, _ = io.ReadAll(r.Body)
			return http.StatusCreated, `{"id":"jrn_2","name":"Kept"}`
		}
		return 0, ""
	})
	yamlKind := http.Header{"Content-Type": {"application/yaml"}}
	for written, name := range map[string]string{
		"# mine\nname: Spring\nstart: a\n":                        "Spring (copy of Ada marketer)",
		`{"start":"a"}`:                                           "Test (copy of Ada marketer)",
		`{"start":"a","name":7}`:                                  "Test (copy of Ada marketer)",
		`{"start":"a","name":"` + strings.Repeat("x", 200) + `"}`: strings.Repeat("x", 120) + "… (copy of Ada marketer)",
	} {
		got := v.send(http.MethodPost, "/journeys/jrn_1/keep.json", written, yamlKind)
		var draft struct{ Name, Start string }
		if err := json.Unmarshal(sent, &draft); got.Status != http.StatusOK || !strings.Contains(got.Body, `"/journeys/jrn_2/edit"`) || err != nil || draft.Name != name || draft.Start != "a" {
			t.Errorf("%s: HTTP %d, %s, %s", written, got.Status, got.Body, sent)
		}
	}
	for _, written := range []string{"", "a: [", "[1]"} {
		if got := v.send(http.MethodPost, "/journeys/jrn_1/keep.json", written, yamlKind); got.Status != http.StatusBadRequest {
			t.Errorf("%q: HTTP %d", written, got.Status)
		}
	}
	if got := v.send(http.MethodPut, "/journeys/jrn_1/draft.yaml", "a: [", yamlKind); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "line 1") {
		t.Errorf("HTTP %d, %s", got.Status, got.Body)
	}
}
