package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"waypost/journey"
)

func TestYAMLToJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"retry: {on: [5xx, 429], y: no}": `{"retry":{"on":["5xx",429],"y":"no"}}`,
		"price: 1.10":                    `{"price":1.10}`,
		"birthday: 1990-02-03":           `{"birthday":"1990-02-03"}`,
		"a: 0x10\nb: 1e3\nc: -7":         `{"a":16,"b":1e3,"c":-7}`,
		"a: true\nb: False\nc: ~\nd:":    `{"a":true,"b":false,"c":null,"d":null}`,
		"a: '1'\nb: \"true\"":            `{"a":"1","b":"true"}`,
		"a: &x {b: 1}\nc: *x":            `{"a":{"b":1},"c":{"b":1}}`,
		"- 1\n- [2, x]":                  `[1,[2,"x"]]`,
		"when: \"a > 1 && b\"":           `{"when":"a \u003e 1 \u0026\u0026 b"}`,
		"":                               `null`,
	} {
		got, err := yamlToJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}
	for name, in := range map[string]string{
		"doubled": "a: 1\na: 2", "two documents": "a: 1\n---\nb: 2", "merge": "a: {<<: {b: 1}}", "infinite": "a: .inf", "broken": "a: [", "bomb": bomb,
	} {
		if out, err := yamlToJSON([]byte(in)); err == nil {
			t.Errorf("%s: no error, %d bytes", name, len(out))
		}
	}
}

// The journeys of docs/journeys.md can be published as they stand.
func TestDocumentedJourneys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) < 2 {
		t.Fatalf("the page has %d journeys", len(blocks))
	}
	for _, block := range blocks {
		body, err := yamlToJSON(block[1])
		if err != nil {
			t.Fatal(err)
		}
		definition, problems := journey.Parse(body)
		if len(problems) == 0 {
			problems = definition.Check(func(string) bool { return true })
		}
		if len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, block[1])
		}
	}
}
