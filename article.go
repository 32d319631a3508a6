package waypost

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// MaxAccessLevel is the highest access level of articles, channels and users;
// the lowest is 0 (docs/contract.md, "Access levels").
const MaxAccessLevel = 10

// Bounds of an article's members, in characters. Content is bounded by the
// request's size only (docs/contract.md, "Bodies").
const (
	maxArticleName       = 1024
	maxArticleIdentifier = 256
	maxArticleURL        = 2048
	maxArticleChannels   = 32
	maxChannelName       = 256
	maxChannelSlug       = 1024
)

// Article is a page of a content site, as search finds it (docs/contract.md, "Articles").
type Article struct {
	ID          string
	TenantID    string // the site
	Name        string // the title
	Identifier  string // the last segment of its slug
	Content     string
	AccessLevel int
	Published   bool
	FrontendURL string    // "" if it has none
	Channels    []Channel // from the broadest to the narrowest
	PublishedAt time.Time // exact to the millisecond
}

// Channel is a section of a content site (docs/contract.md, "Search answer").
// The root channel's slug is empty.
type Channel struct {
	ID          string `json:"id"`
	Slug        string `json:"slug"`
	URL         string `json:"url"` // with or without a scheme
	Name        string `json:"name"`
	AccessLevel int    `json:"access_level"`
}

// Slug is the article's relative path: the slug of the innermost channel, a
// slash, and the identifier.
func (a *Article) Slug() string {
	slug := ""
	if n := len(a.Channels); n > 0 {
		slug = a.Channels[n-1].Slug
	}
	return slug + "/" + a.Identifier
}

// VisibleFrom is the least user access level that may see the article: its own
// or that of any of its channels, whichever is highest
// (docs/contract.md, "Access levels").
func (a *Article) VisibleFrom() int {
	level := a.AccessLevel
	for _, c := range a.Channels {
		level = max(level, c.AccessLevel)
	}
	return level
}

// Validate reports everything that is wrong with an article as one BadRequest.
func (a *Article) Validate() error {
	var p Problems
	checkArticleKey(&p, "id", a.ID)
	if a.ID == "." || a.ID == ".." { // ids stand in paths
		p.Add(DetailInvalidFormat, "id", "must not be a dot segment")
	}
	checkArticleKey(&p, "tenant_id", a.TenantID)
	checkRequired(&p, "name", a.Name, maxArticleName)
	checkRequired(&p, "identifier", a.Identifier, maxArticleIdentifier)
	if strings.Contains(a.Identifier, "/") {
		p.Add(DetailInvalidFormat, "identifier", "must not contain a slash")
	}
	if strings.ContainsRune(a.Content, 0) {
		p.Add(DetailInvalidFormat, "content", "must not contain the character U+0000")
	}
	checkAccessLevel(&p, "access_level", a.AccessLevel)
	checkLink(&p, "frontend_url", a.FrontendURL)
	if len(a.Channels) > maxArticleChannels {
		p.Add(DetailOutOfRange, "channels", "must be at most %d", maxArticleChannels)
		return p.Err("")
	}
	for i, c := range a.Channels {
		at := fmt.Sprintf("channels[%d].", i)
		checkArticleKey(&p, at+"id", c.ID)
		checkRequired(&p, at+"name", c.Name, maxChannelName)
		checkLine(&p, at+"slug", &c.Slug, maxChannelSlug)
		checkLink(&p, at+"url", c.URL)
		checkAccessLevel(&p, at+"access_level", c.AccessLevel)
		if slices.ContainsFunc(a.Channels[:i], func(other Channel) bool { return other.ID == c.ID }) {
			p.Add(DetailDuplicate, at+"id", "the channel stands twice")
		}
	}
	return p.Err("")
}

var articleKey = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// IsArticleKey tells whether s can be the id of a tenant, an article or a
// channel: 1 to 64 of letters, digits, `.`, `_`, `-`, such as a UUID or an
// integer.
func IsArticleKey(s string) bool { return articleKey.MatchString(s) }

func checkArticleKey(p *Problems, target, s string) {
	if s == "" {
		p.Add(DetailNullValue, target, "is missing or empty")
	} else if !IsArticleKey(s) {
		p.Add(DetailInvalidFormat, target, "must be 1 to 64 of letters, digits, '.', '_' and '-'")
	}
}

func checkAccessLevel(p *Problems, target string, level int) {
	if level < 0 || level > MaxAccessLevel {
		p.Add(DetailOutOfRange, target, "must be 0 to %d", MaxAccessLevel)
	}
}

// scheme finds the scheme of a link as browsers do.
var scheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+-]*):`)

// checkLink takes links with and without a scheme. Pages put them into href, so
// javascript: and its like are refused.
func checkLink(p *Problems, target, link string) {
	if !checkLine(p, target, &link, maxArticleURL) || link == "" {
		return
	}
	found := scheme.FindStringSubmatch(link)
	if found != nil && !strings.EqualFold(found[1], "http") && !strings.EqualFold(found[1], "https") {
		p.Add(DetailInvalidFormat, target, "must be an http or https link, or one without a scheme")
	} else if strings.ContainsAny(link, "<>\"`\\") || strings.ContainsFunc(link, unicode.IsSpace) {
		p.Add(DetailInvalidFormat, target, "must not contain blanks, quotes, brackets or backslashes")
	}
}
