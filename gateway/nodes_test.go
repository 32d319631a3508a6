package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"waypost/journey/nodes"
)

// Every example of a type of nodes is published and tried, and all of it is as openapi.yaml says.
func TestNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, target := f.newWebhook("https://example.com"), f.publishedJourney(nothing)
	lead := f.newLead("Ada")
	for _, kind := range nodes.All {
		for _, example := range kind.Examples {
			node := map[string]any{}
			replaced := strings.NewReplacer("whk_1", hook, "jrn_2", target).Replace(example)
			if err := json.Unmarshal([]byte(replaced), &node); err != nil {
				t.Fatal(err)
			}
			node["id"], node["type"] = "n", kind.Name
			all := []any{node}
			for _, m := range kind.Members {
				if m.Kind == nodes.Way && !(m.Name == "next" && node["events"] != nil) && (m.With == "" || node[m.With] != nil) {
					node[m.Name], all = "end", []any{node, map[string]any{"id": "end", "type": "exit"}}
				}
			}
			body, err := json.Marshal(map[string]any{"name": kind.Name, "start": "n", "nodes": all})
			if err != nil {
				t.Fatal(err)
			}
			path := "/v1/journeys/" + f.publishedJourney(string(body))
			f.get(path+"/versions/1").expect(t, 200)
			tried := f.send("POST", path+"/dryrun", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 200)
			if !strings.Contains(tried.raw, `"type":"`+kind.Name+`"`) {
				t.Errorf("%s: %s", body, tried.raw)
			}
		}
	}
}
