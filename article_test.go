package waypost

import (
	"errors"
	"strings"
	"testing"
)

func article() Article {
	return Article{
		ID: "3f6b0f0e-6d51-4d53-9f0a-5f7a6e2f8a11", TenantID: "42", Name: "数据库 <b>", Identifier: "db", Content: "\t多行\r\n文本\f",
		AccessLevel: 2, FrontendURL: "https://www.example.com/a?b=c&d=%20",
		Channels: []Channel{
			{ID: "root", URL: "www.example.com", Name: "Home"},
			{ID: "docs", Slug: "help/docs", URL: "//www.example.com:8080/help", Name: "Docs", AccessLevel: 10},
		},
	}
}

func TestArticle(t *testing.T) {
	t.Parallel()
	a := article()
	if err := a.Validate(); err != nil {
		t.Error(err)
	}
	if got := a.Slug(); got != "help/docs/db" {
		t.Errorf("slug %q", got)
	}
	if got := a.VisibleFrom(); got != 10 {
		t.Errorf("visible from %d", got)
	}
	a.Channels = a.Channels[:1]
	if a.Slug() != "/db" || a.VisibleFrom() != 2 {
		t.Errorf("in the root channel: slug %q, visible from %d", a.Slug(), a.VisibleFrom())
	}
}

func TestArticleValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Article)
		target string
		code   DetailCode
	}{
		{"no id", func(a *Article) { a.ID = "" }, "id", DetailNullValue},
		{"dots as id", func(a *Article) { a.ID = ".." }, "id", DetailInvalidFormat},
		{"slash in id", func(a *Article) { a.ID = "a/b" }, "id", DetailInvalidFormat},
		{"long tenant", func(a *Article) { a.TenantID = strings.Repeat("7", 65) }, "tenant_id", DetailInvalidFormat},
		{"filter as tenant", func(a *Article) { a.TenantID = "a` || x:=`b" }, "tenant_id", DetailInvalidFormat},
		{"line feed after the tenant", func(a *Article) { a.TenantID = "7\n" }, "tenant_id", DetailInvalidFormat},
		{"blank name", func(a *Article) { a.Name = " " }, "name", DetailNullValue},
		{"long name", func(a *Article) { a.Name = strings.Repeat("字", 1025) }, "name", DetailTooLong},
		{"slash in identifier", func(a *Article) { a.Identifier = "a/b" }, "identifier", DetailInvalidFormat},
		{"NUL in content", func(a *Article) { a.Content = "a\x00" }, "content", DetailInvalidFormat},
		{"level too high", func(a *Article) { a.AccessLevel = 11 }, "access_level", DetailOutOfRange},
		{"script", func(a *Article) { a.FrontendURL = "JavaScript:alert(1)" }, "frontend_url", DetailInvalidFormat},
		{"script behind a blank", func(a *Article) { a.FrontendURL = " javascript:alert(1)" }, "frontend_url", DetailInvalidFormat},
		{"data", func(a *Article) { a.Channels[0].URL = "data:text/html,x" }, "channels[0].url", DetailInvalidFormat},
		{"quote in link", func(a *Article) { a.FrontendURL = `https://x.example/"onclick="x` }, "frontend_url", DetailInvalidFormat},
		{"channel without a name", func(a *Article) { a.Channels[1].Name = "" }, "channels[1].name", DetailNullValue},
		{"channel twice", func(a *Article) { a.Channels[1].ID = "root" }, "channels[1].id", DetailDuplicate},
		{"negative level", func(a *Article) { a.Channels[1].AccessLevel = -1 }, "channels[1].access_level", DetailOutOfRange},
		{"many channels", func(a *Article) { a.Channels = make([]Channel, 33) }, "channels", DetailOutOfRange},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := article()
			tt.change(&a)
			var e *Error
			if err := a.Validate(); !errors.As(err, &e) || len(e.Details) != 1 || e.Details[0].Target != tt.target || e.Details[0].Code != tt.code {
				t.Errorf("got %+v, want one fault %s of %s", err, tt.code, tt.target)
			}
		})
	}
}
