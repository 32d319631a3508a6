package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
)

const articlesPath = "/v1/articles"

func articlePath(id string) string { return articlesPath + "/" + url.PathEscape(id) }

func (c *cli) articles() *cobra.Command {
	return group(&cobra.Command{
		Use: "articles", Short: "Search, write, import and reindex the articles of content sites",
		Example: `  waypost articles put article.yaml
  waypost articles import articles.ndjson
  waypost articles search 报销 --tenant help-centre`,
	}, c.articlesSearch(), c.articlesShow(), c.articlesPut(), c.articlesDelete(), c.articlesImport(), c.articlesReindex())
}

func (c *cli) articlesShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show an article",
		long: `Shows an article with its content. With --etag it shows only the ETag of its current version, for
--if-match of put and delete.`,
		example: `  waypost articles show 7d0c1b52-1e0b-4c51-9f4e-0c6a3c1f2b10 -o json > article.json
  waypost articles show 4711 --etag`,
		path:  articlePath,
		print: c.printArticle,
		etag:  true,
	})
}

// printArticle writes an article: its members, its channels and its content.
func (c *cli) printArticle(m members) error {
	if err := c.printStored(m); err != nil {
		return err
	}
	var content string
	if json.Unmarshal(m.raw("content"), &content) != nil || content == "" {
		return nil
	}
	lines := strings.Split(strings.TrimRight(content, "\r\n"), "\n")
	for i, line := range lines {
		lines[i] = clean(strings.TrimSuffix(line, "\r"))
	}
	_, err := fmt.Fprintf(c.stdout, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

// printStored is printArticle without the content.
func (c *cli) printStored(m members) error {
	if err := c.printObject(m, "content", "channels"); err != nil {
		return err
	}
	return c.printList(m, "channels", col("CHANNEL", "id"), col("LEVEL", "access_level"), col("SLUG", "slug"), col("NAME", "name"), col("URL", "url"))
}

// articlesPut puts to the path of the id that the file holds; a file without a valid one is refused
// before the call.
func (c *cli) articlesPut() *cobra.Command {
	cmd := &cobra.Command{
		Use: "put FILE", Short: "Create or replace an article",
		Long: `Creates the article that a YAML or JSON file holds (- is standard input), or replaces the one with its
id: members that the file does not name get their defaults. A moment later it can be found.

What ` + "`waypost articles show ID -o json`" + ` prints can be edited and given back. With --if-match nothing
happens if the article was changed meanwhile.`,
		Example: `  cat > article.yaml <<'END'
  id: expenses
  tenant_id: help-centre
  name: 差旅报销流程
  identifier: expenses
  content: |
    Hand in receipts within 30 days. 报销单请在三十天内提交。
  channels:
    - {id: root, slug: "", name: Help centre, url: help.example.com}
  END
  waypost articles put article.yaml
  waypost articles put article.json --if-match "$(waypost articles show expenses --etag)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := c.readObject(args[0])
			if err != nil {
				return err
			}
			var m members
			if err := json.Unmarshal(body, &m); err != nil {
				return fmt.Errorf("read the article: %w", err)
			}
			id := m.text("id")
			if !waypost.IsArticleKey(id) {
				return errors.New("the article must have an id: 1 to 64 of letters, digits, '.', '_' and '-'")
			}
			a, err := c.change(cmd, http.MethodPut, articlePath(id), body)
			if err != nil {
				return err
			}
			return c.print(a, c.printStored)
		},
	}
	matchFlag(cmd, "article")
	return cmd
}

// articlesDelete makes a call for each id. It goes on after an error that the gateway answers, and
// stops at one of the network, which the other articles would meet, too.
func (c *cli) articlesDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID...", Short: "Delete articles",
		Long: `Deletes articles; a moment later they are not found any more. One that cannot be deleted keeps no other
from being deleted, and the exit code is then 1.`,
		Example: `  waypost articles delete expenses
  waypost articles delete expenses --if-match "$(waypost articles show expenses --etag)"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && cmd.Flags().Changed("if-match") {
				return usagef("--if-match is the version of one article; delete the others by themselves")
			}
			deleted, failed := []string{}, 0
			for _, id := range args {
				_, err := c.change(cmd, http.MethodDelete, articlePath(id), nil)
				switch {
				case err == nil:
					deleted = append(deleted, id)
				case len(args) == 1 || cmd.Context().Err() != nil || !errors.As(err, new(*waypost.Error)):
					return err // other articles would fail in the same way
				default:
					failed++
					fmt.Fprintf(c.stderr, "%s: %s\n", clean(id), describe(err))
				}
				if err == nil && c.output == outputTable {
					if _, err := fmt.Fprintf(c.stdout, "deleted %s\n", clean(id)); err != nil {
						return err
					}
				}
			}
			if c.output == outputJSON {
				if err := c.printJSON(map[string]any{"deleted": deleted}); err != nil {
					return err
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d articles were not deleted", failed, len(args))
			}
			return nil
		},
	}
	matchFlag(cmd, "article")
	return cmd
}

const reindexPath = articlesPath + "/reindex"

// articlesReindex posts to /v1/articles/reindex, where a reindex under way is no error, and then
// reads its state until it ends.
func (c *cli) articlesReindex() *cobra.Command {
	var watch, noWait bool
	cmd := &cobra.Command{
		Use: "reindex", Short: "Fill a new search index with all articles, and then search that",
		Long: `Has the articles of all organisations put into a new index, shows how far that is, and ends when
searches use it. Searches are answered from the index before it meanwhile, and what is written
meanwhile is in both. If a reindex is under way already, this watches that one. Ctrl-C only stops
watching: the reindex goes on. With --watch it only watches the last one, and asks for none.`,
		Example: `  waypost articles reindex
  waypost articles reindex --watch
  waypost articles reindex --no-wait -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if noWait {
				return c.send(cmd.Context(), http.MethodPost, reindexPath, nil)
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			if !watch {
				if _, err := cl.do(cmd.Context(), http.MethodPost, reindexPath, nil, nil); err != nil {
					return err
				}
			}
			return c.watchReindex(cmd.Context(), cl)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "only watch the one that is under way, or tell how the last one ended")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "only ask for it")
	cmd.MarkFlagsMutuallyExclusive("watch", "no-wait")
	return cmd
}

// reindexProgress is the part of a reindex that its progress bar shows.
type reindexProgress struct {
	Status           waypost.ReindexStatus
	Message          string
	Total, Processed int
}

func (p reindexProgress) state() (string, bool) {
	return string(p.Status), p.Status == waypost.ReindexSucceeded || p.Status == waypost.ReindexFailed
}

func (p reindexProgress) done() float64 {
	if p.Status == waypost.ReindexSucceeded { // also without articles
		return 1
	}
	return share(int64(p.Processed), int64(p.Total))
}

func (p reindexProgress) String() string {
	if p.Status == waypost.ReindexPending {
		return "reindex pending"
	}
	return fmt.Sprintf("reindex %s, %d of %s", clean(string(p.Status)), p.Processed, quantity(p.Total, "article", "articles"))
}

// watchReindex shows a reindex's progress until it has ended, and then the reindex.
func (c *cli) watchReindex(ctx context.Context, cl *client) error {
	p, err := watchJob[reindexProgress](ctx, c, cl, reindexPath, "reindex", "the reindex goes on: `waypost articles reindex` watches it again")
	if err == nil && p.Status == waypost.ReindexFailed {
		err = fmt.Errorf("the reindex failed: %s", clean(p.Message))
	}
	return err
}

// articleLines are what an import of articles takes.
var articleLines = lineKind{articlesPath + "/import", "articles", []string{"created", "updated"}, 8 << 20}

func (c *cli) articlesImport() *cobra.Command {
	return c.importCommand(&cobra.Command{
		Short: "Import articles from an NDJSON file",
		Long: `Sends a file with one article a line, of any size, to the gateway, part by part (- is standard input), and
shows the progress. An article whose id is there already is replaced. Lines that fail do not keep the
others from being imported: the first of them are shown with their numbers in the file, --errors writes
all of them to a file, and the exit code is 1.

After Ctrl-C, or if the gateway cannot be reached any more, it says how far it got. Importing the whole
file again is harmless: what is there already stays as it is.`,
		Example: `  waypost articles import articles.ndjson --errors failed.ndjson
  gunzip -c articles.ndjson.gz | waypost articles import -`,
	}, articleLines)
}
