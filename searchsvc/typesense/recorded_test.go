package typesense

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"waypost"
)

// The stand-in answers what was recorded as the real server did: the same status, and the
// same hits in the same order. Each group of recordings is sent in its order.
func TestStandInAnswersAsRecorded(t *testing.T) {
	t.Parallel()
	for group, setup := range map[string][]string{
		"b": {"a05_create_collection", "a09_import", "a07_alias_upsert"},
		"c": {"a05_create_collection", "a09_import", "a07_alias_upsert"},
		"d": {"a05_create_collection", "a09_import", "a07_alias_upsert"},
		"f": {"a05_create_collection", "a09_import", "a07_alias_upsert"},
		"j": nil,
	} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			s := startStandIn(t)
			for _, name := range setup {
				s.send(t, record(t, name))
			}
			files, err := filepath.Glob("testdata/" + group + "[0-9]*.json")
			if err != nil || len(files) < 4 {
				t.Fatalf("%d recordings, %v", len(files), err)
			}
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".json")
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(data), `"states": [`) || name == "j01_snapshot" {
					continue // TestRestartAfterSnapshot
				}
				r := record(t, name)
				s.prepare(t, name, r)
				status, body := s.send(t, r)
				if want := r.Response.Status; status != want {
					t.Errorf("%s: %d %s, want %d %s", name, status, body, want, r.Response.Body)
				}
				if got, want := hitsOf(body), hitsOf(r.Response.Body); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v, want %v", name, got, want)
				}
			}
		})
	}
}

// prepare does what was done between the recordings: it makes the collection of an import,
// has searches use it, and fills those of the two installations.
func (s *standIn) prepare(t *testing.T, name string, r recording) {
	t.Helper()
	if collection, imports := strings.CutSuffix(strings.TrimPrefix(r.Request.Path, "/collections/"), "/documents/import"); imports && name[0] == 'j' && r.Response.Status == 200 {
		s.prepareCollection(t, collection)
	}
	if name != "j64_two_installations_alias_of_the_first" {
		return
	}
	data, err := os.ReadFile("../searchtest/j_corpus.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var d map[string]any
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		collection := d["collection"].(string)
		if !strings.HasPrefix(collection, "articles_06") {
			continue
		}
		if s.collections[collection] == nil {
			s.prepareCollection(t, collection)
		}
		d["tenant_key"], d["beginnings"], d["characters"] = tenantKey(waypost.StageRelease, d["tenant_id"].(string)), "", ""
		_, text := asJSON(0, d)
		s.collections[collection].put(text)
	}
	s.aliases["articles"] = "articles_06h1qjf4ghqqjkbzdm4bs13g2m"
}

// prepareCollection has a collection with the fields of the recordings.
func (s *standIn) prepareCollection(t *testing.T, collection string) {
	t.Helper()
	if s.collections[collection] == nil {
		create := record(t, "j04_create_collection")
		var schema map[string]any
		if err := json.Unmarshal([]byte(create.Request.Body), &schema); err != nil {
			t.Fatal(err)
		}
		schema["name"] = collection
		_, create.Request.Body = asJSON(0, schema)
		s.send(t, create)
	}
	alias := record(t, "a07_alias_upsert")
	_, alias.Request.Body = asJSON(0, map[string]string{"collection_name": collection})
	s.send(t, alias)
}

func (s *standIn) send(t *testing.T, r recording) (int, string) {
	t.Helper()
	address := s.URL + r.Request.Path
	if r.Request.RawQuery != "" {
		address += "?" + r.Request.RawQuery
	}
	request, err := http.NewRequestWithContext(t.Context(), r.Request.Method, address, strings.NewReader(r.Request.Body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// hitsOf are the ids of the documents of an answer, in groups of one time: in a group the
// order is the engine's own.
func hitsOf(body string) [][]string {
	var answer struct {
		Hits []struct {
			Document struct {
				ID          string
				PublishedAt int64 `json:"published_at"`
			}
		}
	}
	_ = json.Unmarshal([]byte(body), &answer)
	ids := [][]string{}
	for i, hit := range answer.Hits {
		if i == 0 || hit.Document.PublishedAt != answer.Hits[i-1].Document.PublishedAt {
			ids = append(ids, nil)
		}
		ids[len(ids)-1] = append(ids[len(ids)-1], hit.Document.ID)
		slices.Sort(ids[len(ids)-1])
	}
	return ids
}
