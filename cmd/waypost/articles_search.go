package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
)

const (
	searchPath = "/api/v1/articles/search"
	tokensPath = "/v1/tokens"
)

// articlesSearch calls the search with a bearer token, not signed as other commands are.
func (c *cli) articlesSearch() *cobra.Command {
	var tenant, from string
	numbers := filters{{flag: "level", name: "user_access_level"}, {flag: "page", name: "_page"}, {flag: "per-page", name: "_per_page"}}
	cmd := &cobra.Command{
		Use: "search KEYWORDS...", Short: "Search the articles of a content site",
		Long: `Shows a page of the articles that hold all the keywords, those with them in the title first, then the
newest. A terminal shows in bold what was found.

The search token, and the site where --tenant names none, are those of the profile. Where it has none, or
one that is not for this search, the command asks for a token with the profile's keys (grant
tokens.issue) and uses it for this search only.`,
		Example: `  waypost articles search 报销
  waypost articles search travel expenses --tenant help-centre --level 0
  waypost articles search 报销 --from admin --page 2 --per-page 50 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			if tenant = cmp.Or(tenant, cl.profile.TenantID); tenant == "" {
				return usagef("search needs --tenant ID, the site to search: the profile names none")
			}
			query := numbers.query(cmd)
			query.Set("tenant_id", tenant)
			query.Set("from", from)
			query.Set("keywords", strings.Join(args, " "))
			a, err := cl.search(cmd.Context(), query)
			if err != nil {
				return err
			}
			return printAs(c, a, "search result", c.printFound)
		},
	}
	f := cmd.Flags()
	f.StringVar(&tenant, "tenant", "", "the site; by default the profile's")
	f.StringVar(&from, "from", string(waypost.FromFrontend), "frontend, or admin, which finds articles that are not published too")
	f.Int("level", waypost.MaxAccessLevel, "only what this user access level may see, 0 to 10")
	f.Int("page", 1, "the page, from 1")
	f.Int("per-page", 10, "articles of a page, 1 to 50")
	notEmpty(cmd, "tenant")
	return cmd
}

// search asks with the profile's token, or else with one that is issued for this
// search.
func (c *client) search(ctx context.Context, query url.Values) (answer, error) {
	target := searchPath + "?" + query.Encode()
	stage := cmp.Or(waypost.Stage(c.gateway.Header.Get("X-Cloud-Stage")), waypost.StageRelease)
	// waypost-dev issues the profile's token for its tenant in the default stage.
	if p := c.profile; p.SearchToken != "" && p.TenantID == query.Get("tenant_id") && stage == waypost.StageRelease {
		a, err := c.withBearer(p.SearchToken).do(ctx, http.MethodGet, target, nil, nil)
		if waypost.CodeOf(err) != waypost.CodeUnauthorized {
			return a, err
		}
	}
	token, err := c.searchToken(ctx, query.Get("tenant_id"), query.Get("from"))
	if err != nil {
		return answer{}, err
	}
	return c.withBearer(token).do(ctx, http.MethodGet, target, nil, nil)
}

// searchToken has the shortest-lived token issued.
func (c *client) searchToken(ctx context.Context, tenant, from string) (string, error) {
	a, err := c.do(ctx, http.MethodPost, tokensPath, nil, map[string]any{
		"tenantIds": []string{tenant}, "from": []string{from}, "expiresIn": int(waypost.MinTokenExpiry.Seconds()),
	})
	if err != nil {
		return "", fmt.Errorf("no search token was issued: %w", err)
	}
	var issued struct {
		Token string `json:"access_token"`
	}
	if json.Unmarshal(a.body, &issued) != nil || issued.Token == "" {
		return "", errors.New("the gateway's answer is no search token")
	}
	return issued.Token, nil
}

// found is a page of articles as search answers it.
type found struct {
	Message struct {
		Meta struct {
			Page  int `json:"current_page"`
			Pages int `json:"total_pages"`
			Total int `json:"total_count"`
		} `json:"meta"`
		Items []struct {
			ID      string `json:"id"`
			Name    string `json:"name_highlight"`
			Excerpt string `json:"search_highlight"`
			Level   int    `json:"access_level"`
		} `json:"items"`
	} `json:"message"`
}

// printFound writes a page of articles.
func (c *cli) printFound(f found) error {
	meta, items := f.Message.Meta, f.Message.Items
	if len(items) > 0 {
		t := c.table("ID", "LEVEL", "TITLE", "TEXT")
		for _, hit := range items {
			t.row(clean(hit.ID), strconv.Itoa(hit.Level), c.marked(hit.Name), c.marked(hit.Excerpt))
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	says := quantity(meta.Total, "article", "articles")
	switch {
	case meta.Total == 0:
		fmt.Fprintln(c.stderr, "Nothing was found.")
	case len(items) == 0:
		fmt.Fprintf(c.stderr, "Page %d is behind the last one, %d.\n", meta.Page, meta.Pages)
	case meta.Page < meta.Pages:
		fmt.Fprintf(c.stderr, "%s, page %d of %d; the next: --page %d\n", says, meta.Page, meta.Pages, meta.Page+1)
	default:
		fmt.Fprintf(c.stderr, "%s, page %d of %d\n", says, meta.Page, meta.Pages)
	}
	return nil
}

// mark is the only markup in a highlight: it is around matched text.
var mark = regexp.MustCompile(`<b class="highlight">|</b>`)

// marked turns a highlight, which is HTML, into one line of text, with the matches in bold
// on a terminal.
func (c *cli) marked(highlight string) string {
	var b strings.Builder
	deep, at := 0, 0
	write := func(from, to int) { b.WriteString(clean(html.UnescapeString(highlight[from:to]))) }
	highlight = strings.Join(strings.Fields(highlight), " ")
	for _, m := range mark.FindAllStringIndex(highlight, -1) {
		write(at, m[0])
		at = m[1]
		change, step := boldOn, 1
		if highlight[m[0]+1] == '/' {
			change, step = boldOff, -1
		}
		if c.bold && deep+max(0, step) == 1 { // marks may be nested
			b.WriteString(change)
		}
		deep += step
	}
	write(at, len(highlight))
	return b.String()
}
