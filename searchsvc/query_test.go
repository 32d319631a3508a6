package searchsvc

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"waypost"
)

func TestParseQuery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, raw string
		want      Query
	}{
		{"the least", "tenant_id=42&from=frontend&keywords=go",
			Query{TenantID: "42", From: waypost.FromFrontend, Level: 10, Page: 1, PerPage: 10}},
		{"everything", "keywords=%E5%AD%A6+x&_per_page=50&_page=7&user_access_level=0&from=admin&tenant_id=3F6b0f0e-6d51-4d53-9f0a-5f7a6e2f8a11",
			Query{TenantID: "3F6b0f0e-6d51-4d53-9f0a-5f7a6e2f8a11", From: waypost.FromAdmin, Level: 0, Page: 7, PerPage: 50}},
		{"the last page", "tenant_id=a.b_c&from=admin&keywords=x&_page=2147483647&user_access_level=10",
			Query{TenantID: "a.b_c", From: waypost.FromAdmin, Level: 10, Page: 2147483647, PerPage: 10}},
		{"512 bytes", "tenant_id=42&from=frontend&keywords=" + strings.Repeat("k", 512),
			Query{TenantID: "42", From: waypost.FromFrontend, Level: 10, Page: 1, PerPage: 10}},
		{"operators, NUL, emoji", "tenant_id=42&from=frontend&keywords=%22*%21%00%F0%9F%9A%80",
			Query{TenantID: "42", From: waypost.FromFrontend, Level: 10, Page: 1, PerPage: 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseQuery(tt.raw)
			if err != nil {
				t.Fatal(err)
			}
			values, _ := url.ParseQuery(tt.raw)
			if want := ParseKeyword(values.Get("keywords")); !slices.Equal(got.Keyword.Parts, want.Parts) {
				t.Errorf("keyword %v, want %v", got.Keyword, want)
			}
			got.Keyword, tt.want.Stage = Keyword{}, waypost.StageRelease
			if got.TenantID != tt.want.TenantID || got.From != tt.want.From || got.Level != tt.want.Level ||
				got.Page != tt.want.Page || got.PerPage != tt.want.PerPage || got.Stage != tt.want.Stage {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestParseQueryFaults(t *testing.T) {
	t.Parallel()
	const fine = "tenant_id=42&from=frontend&keywords=go"
	for _, tt := range []struct {
		name, raw string
		want      []string // target and code of each fault
	}{
		{"nothing", "", []string{"tenant_id NullValue", "from NullValue", "keywords NullValue"}},
		{"empty", "tenant_id=&from=&keywords=", []string{"tenant_id NullValue", "from NullValue", "keywords NullValue"}},
		{"blank keywords", "tenant_id=42&from=admin&keywords=+%09", []string{"keywords NullValue"}},
		{"repeated", fine + "&tenant_id=42&_page=1&_page=1", []string{"tenant_id Duplicate", "_page Duplicate"}},
		{"unknown", fine + "&page=1&Keywords=x", []string{"Keywords UnknownField", "page UnknownField"}},
		{"filter syntax", "tenant_id=a%60%7C%7Cb&from=frontend&keywords=go", []string{"tenant_id InvalidFormat"}},
		{"long tenant", "tenant_id=" + strings.Repeat("a", 65) + "&from=frontend&keywords=go", []string{"tenant_id InvalidFormat"}},
		{"case of from", "tenant_id=42&from=Frontend&keywords=go", []string{"from InvalidFormat"}},
		{"513 bytes", "tenant_id=42&from=frontend&keywords=" + strings.Repeat("%E5%AD%A6", 171), []string{"keywords TooLong"}},
		{"invalid UTF-8", "tenant_id=42&from=frontend&keywords=%FF", []string{"keywords InvalidFormat"}},
		{"too small", fine + "&user_access_level=-1&_page=0&_per_page=0", []string{"user_access_level OutOfRange", "_page OutOfRange", "_per_page OutOfRange"}},
		{"too large", fine + "&user_access_level=11&_page=2147483648&_per_page=51", []string{"user_access_level OutOfRange", "_page OutOfRange", "_per_page OutOfRange"}},
		{"huge", fine + "&_page=99999999999999999999", []string{"_page OutOfRange"}},
		{"no numbers", fine + "&user_access_level=&_page=1.5&_per_page=%2B5", []string{"user_access_level InvalidType", "_page InvalidType", "_per_page InvalidType"}},
		{"broken escape", fine + "%zz", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseQuery(tt.raw)
			var e *waypost.Error
			if !errors.As(err, &e) || e.Code != waypost.CodeBadRequest {
				t.Fatalf("got %v, want BadRequest", err)
			}
			var got []string
			for _, d := range e.Details {
				got = append(got, d.Target+" "+string(d.Code))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
