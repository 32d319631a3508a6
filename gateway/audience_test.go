package gateway

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
)

func decodeLaunchOf(body string) (waypost.Launch, error) {
	a := &server{Options: Options{PhoneRegion: "CN", Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}}
	return a.decodeLaunch(&request{body: []byte(body)})
}

func TestLeadsIDs(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]int64{
		"[1]":                     {1},
		"[ 3 ,\n1\t,2 ]":          {1, 2, 3},
		"[7,7,1,7]":               {1, 7},
		"[9223372036854775807,5]": {5, 9223372036854775807},
	} {
		for _, body := range []string{
			`{"audience":{"leadsIds":` + list + `}}`,
			` { "ratePerSecond" : 5 , "audience" : { "leadsIds" : ` + list + ` , "filter" : null } } `,
			`{"audience":{"leads\u0049ds":` + list + `},"startAt":null}`,
		} {
			l, err := decodeLaunchOf(body)
			if err != nil || !slices.Equal(l.Audience.LeadsIDs, want) || l.Audience.Filter != nil {
				t.Errorf("%s: %+v, %v", body, l.Audience, err)
			}
		}
	}
	for body, want := range map[string]string{
		`{"audience":{"leadsIds":[]}}`:                        "NullValue audience.leadsIds",
		`{"audience":{"leadsIds":[ ]}}`:                       "NullValue audience.leadsIds",
		`{"audience":{"leadsIds":null}}`:                      "NullValue audience",
		`{"audience":{"leadsIds":"1"}}`:                       "InvalidType audience.leadsIds",
		`{"audience":{"leadsIds":{"0":1}}}`:                   "InvalidType audience.leadsIds",
		`{"audience":{"leadsIds":7}}`:                         "InvalidType audience.leadsIds",
		`{"audience":[[1]]}`:                                  "InvalidType audience",
		`{"audience":null}`:                                   "NullValue audience",
		`{"audience":{"leadsIds":[1],"leadsIds":[2]}}`:        "Duplicate audience.leadsIds",
		`{"audience":{"leadsIds":[1]},"audience":{}}`:         "Duplicate audience",
		`{"audience":{"LeadsIds":[1]}}`:                       "UnknownField audience.LeadsIds; NullValue audience",
		`{"audience":{"leadsIds":[1],"filter":{}}}`:           "InvalidFormat audience",
		`{"audience":{"leadsIds":[1,0,-5,2]}}`:                "OutOfRange audience.leadsIds[1]; OutOfRange audience.leadsIds[2]",
		`{"audience":{"leadsIds":[1.0,1e3,"7",true,null,3]}}`: "InvalidType audience.leadsIds[0]; InvalidType audience.leadsIds[1]; InvalidType audience.leadsIds[2]; InvalidType audience.leadsIds[3]; NullValue audience.leadsIds[4]",
		`{"audience":{"leadsIds":[[1,"],2"],{"a":[1]}, 0]}}`:  "InvalidType audience.leadsIds[0]; InvalidType audience.leadsIds[1]; OutOfRange audience.leadsIds[2]",
		`{"audience":{"leadsIds":[9223372036854775808]}}`:     "OutOfRange audience.leadsIds[0]",
		`{"audience":{"leadsIds":["\u0000"]}}`:                "InvalidType audience.leadsIds[0]",
		`{"audience":{"leadsIds":[1,]}}`:                      "InvalidFormat ",
		`{"audience":{"leadsIds":[01]}}`:                      "InvalidFormat ",
		`{"audience":{"leadsIds":[1]}`:                        "InvalidFormat ",
		`{"audience":{"leadsIds":[1]}}{}`:                     "InvalidFormat ",
		"{\"audience\":{\"leadsIds\":[\"\xff\"]}}":            "InvalidFormat ",
		`[{"audience":{"leadsIds":[1]}}]`:                     "InvalidType ",
		`null`:                                                "InvalidType ",
		``:                                                    "InvalidFormat ",
	} {
		_, err := decodeLaunchOf(body)
		if got := faultsOf(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
}

// faultsOf lists an error's details as "code target".
func faultsOf(err error) string {
	e, isError := err.(*waypost.Error)
	if !isError {
		return fmt.Sprint(err)
	}
	var out []string
	for _, d := range e.Details {
		out = append(out, string(d.Code)+" "+d.Target)
	}
	return strings.Join(out, "; ")
}

func listOfIDs(n int) string {
	var b strings.Builder
	b.WriteString(`{"audience":{"leadsIds":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n - i))
	}
	b.WriteString(`]}}`)
	return b.String()
}

// Not parallel: it measures what is allocated. A list must cost about what its text
// and its numbers take, whatever is wrong with it.
func TestLongLists(t *testing.T) {
	million := listOfIDs(waypost.MaxAudience)
	for _, tc := range []struct {
		name, body, want string
		ids              int
	}{
		{"a million", million, "<nil>", waypost.MaxAudience},
		{"one too many", strings.Replace(million, "[", "[5,", 1), "TooLong audience.leadsIds", 0},
		{"nothing but lists", `{"audience":{"leadsIds":[` + strings.Repeat("[],", 5_000_000) + `1]}}`, "", 0},
		{"cut off", million[:len(million)-2], "InvalidFormat ", 0},
		{"beside the list", `{"startAt":"` + strings.Repeat("x", maxBody) + `","audience":{"leadsIds":[1]}}`, "", 0},
		{"a list that nobody knows", `{"audience":{"ids":[` + strings.Repeat("1,", 1<<20) + `1]}}`, "", 0},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l, err := decodeLaunchOf(tc.body)
		runtime.ReadMemStats(&after)
		if tc.want != "" && faultsOf(err) != tc.want || err == nil && tc.name != "a million" {
			t.Errorf("%s: %s", tc.name, faultsOf(err))
		}
		if len(l.Audience.LeadsIDs) != tc.ids {
			t.Errorf("%s: %d ids", tc.name, len(l.Audience.LeadsIDs))
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
			t.Errorf("%s: a body of %d bytes took %d", tc.name, len(tc.body), used)
		} else {
			t.Logf("%s: a body of %d bytes took %d", tc.name, len(tc.body), used)
		}
	}
	for _, body := range []string{`{"startAt":"` + strings.Repeat("x", maxBody) + `","audience":{"leadsIds":[1]}}`, `{"audience":{"ids":[` + strings.Repeat("1,", 1<<20) + `1]}}`} {
		if _, err := decodeLaunchOf(body); waypost.CodeOf(err) != waypost.CodePayloadTooLarge {
			t.Errorf("got %v, want PayloadTooLarge", err)
		}
	}
	_, err := decodeLaunchOf(`{"audience":{"leadsIds":[` + strings.Repeat("null,", 1000) + `1]}}`)
	if e, isError := err.(*waypost.Error); !isError || len(e.Details) != 100 {
		t.Errorf("1000 faults: %v", err)
	}
}

func TestLaunchBody(t *testing.T) {
	t.Parallel()
	l, err := decodeLaunchOf(`{"audience":{"filter":{"leadsGroup":3,"region":-1,"name":"张","mobilePhone":"138 0000 0000","email":"A@example.com","externalId":"x 1",
		"createdFrom":"2026-01-01T00:00:00+08:00","createdTo":"2026-02-01T00:00:00Z","updatedFrom":"2026-01-02T00:00:00.5Z","updatedTo":"2026-01-03T00:00:00Z"}},
		"startAt":"2027-01-01T09:00:00+08:00","ratePerSecond":0.5}`)
	if err != nil {
		t.Fatal(err)
	}
	group, region := int64(3), int64(-1)
	want := waypost.LeadFilter{
		LeadsGroup: &group, Region: &region, Name: "张", MobilePhone: "+8613800000000", Email: "A@example.com", ExternalID: "x 1",
		CreatedTo:   time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		UpdatedFrom: time.Date(2026, 1, 2, 0, 0, 0, 5e8, time.UTC), UpdatedTo: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
	}
	got := *l.Audience.Filter
	if !got.CreatedFrom.Equal(time.Date(2025, 12, 31, 16, 0, 0, 0, time.UTC)) {
		t.Errorf("createdFrom %s", got.CreatedFrom)
	}
	if *got.LeadsGroup != group || *got.Region != region {
		t.Errorf("leadsGroup %d, region %d", *got.LeadsGroup, *got.Region)
	}
	got.CreatedFrom, got.LeadsGroup, got.Region = time.Time{}, &group, &region
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !l.StartAt.Equal(time.Date(2027, 1, 1, 1, 0, 0, 0, time.UTC)) || l.RatePerSecond != 0.5 || l.Audience.LeadsIDs != nil {
		t.Errorf("%+v", l)
	}
	if l, err = decodeLaunchOf(`{"audience":{"filter":{"name":null}},"startAt":null,"ratePerSecond":null}`); err != nil || l.StartAt != nil || l.RatePerSecond != 0 || !reflect.DeepEqual(*l.Audience.Filter, waypost.LeadFilter{}) {
		t.Errorf("%+v, %v", l, err)
	}
	for body, want := range map[string]string{
		`{}`:                        "NullValue audience",
		`{"audience":{}}`:           "NullValue audience",
		`{"audience":{"filter":5}}`: "InvalidType audience.filter",
		`{"audience":{"filter":{}},"schedule":{},"controlGroup":0.1,"every":1}`: "UnknownField every; NullValue schedule.cron",
		`{"audience":{"filter":{}},"ratePerSecond":0}`:                          "OutOfRange ratePerSecond",
		`{"audience":{"filter":{}},"ratePerSecond":-1}`:                         "OutOfRange ratePerSecond",
		`{"audience":{"filter":{}},"ratePerSecond":1e-9}`:                       "OutOfRange ratePerSecond",
		`{"audience":{"filter":{}},"ratePerSecond":100000.5}`:                   "OutOfRange ratePerSecond",
		`{"audience":{"filter":{}},"ratePerSecond":"5"}`:                        "InvalidType ratePerSecond",
		`{"audience":{"filter":{}},"startAt":"tomorrow"}`:                       "InvalidFormat startAt",
		`{"audience":{"filter":{}},"startAt":""}`:                               "InvalidFormat startAt",
		`{"audience":{"filter":{}},"startAt":"0000-01-01T00:00:00Z"}`:           "OutOfRange startAt",
		`{"audience":{"filter":{"limit":5,"sort":"leadsId"}}}`:                  "UnknownField audience.filter.limit; UnknownField audience.filter.sort",
		`{"audience":{"filter":{"name":""}}}`:                                   "NullValue audience.filter.name",
		`{"audience":{"filter":{"name":"` + strings.Repeat("n", 129) + `"}}}`:   "TooLong audience.filter.name",
		`{"audience":{"filter":{"mobilePhone":"1"}}}`:                           "InvalidFormat audience.filter.mobilePhone",
		`{"audience":{"filter":{"email":""}}}`:                                  "InvalidFormat audience.filter.email",
		`{"audience":{"filter":{"externalId":" "}}}`:                            "InvalidFormat audience.filter.externalId",
		`{"audience":{"filter":{"leadsGroup":"3","region":1.5}}}`:               "InvalidType audience.filter.leadsGroup; InvalidType audience.filter.region",
		`{"audience":{"filter":{"createdFrom":"2026-02-01T00:00:00Z","createdTo":"2026-01-01T00:00:00Z","updatedFrom":"2026-02-01T00:00:00+08:00","updatedTo":"2026-01-31T15:00:00Z"}}}`: "OutOfRange audience.filter.createdFrom; OutOfRange audience.filter.updatedFrom",
		`{"audience":{"filter":{"createdTo":"2026-01-01"}}}`:                       "InvalidFormat audience.filter.createdTo",
		`{"x":1,"audience":{"filter":{"email":"x"},"leadsIds":[0]},"startAt":"x"}`: "UnknownField x; InvalidFormat audience; InvalidFormat audience.filter.email; OutOfRange audience.leadsIds[0]; InvalidFormat startAt",
	} {
		_, err := decodeLaunchOf(body)
		if got := faultsOf(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
}
