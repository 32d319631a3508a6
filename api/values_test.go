package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"waypost"
	"waypost/api"
)

type values struct {
	At     api.Time         `json:"at"`
	Until  api.TimeOrNull   `json:"until"`
	Text   api.TextOrNull   `json:"text"`
	Number api.IntOrNull    `json:"number"`
	Object api.ObjectOrNull `json:"object"`
	Next   api.Cursor       `json:"next"`
	Class  api.ErrorClass   `json:"class"`
}

// Values are written in one form, and read as what they were.
func TestValues(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 13, 0, 0, 7_900_000, time.FixedZone("", 3600))
	for _, tc := range []struct {
		name string
		v    values
		want string
	}{
		{
			"null", values{At: api.At(at)},
			`{"at":"2026-01-31T12:00:00.007Z","until":null,"text":null,"number":null,"object":null,"next":null,"class":null}`,
		},
		{
			"set", values{api.At(at), api.AtOrNull(at), "<a> & b", 200, api.ObjectOrNull(`{"a":1}`), "c", "tls"},
			`{"at":"2026-01-31T12:00:00.007Z","until":"2026-01-31T12:00:00.007Z","text":"<a> & b","number":200,"object":{"a":1},` +
				`"next":"c","class":"tls"}`,
		},
	} {
		text, err := waypost.EncodeJSON(tc.v)
		if err != nil || string(text) != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.name, text, err, tc.want)
		}
		var back values
		if err := json.Unmarshal(text, &back); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if again, err := waypost.EncodeJSON(back); err != nil || string(again) != tc.want {
			t.Errorf("%s, read and written: %s, %v", tc.name, again, err)
		}
	}
}
