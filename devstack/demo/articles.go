package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"waypost"
	"waypost/client"
)

// article is an article as it is written (docs/contract.md, "Articles").
type article struct {
	ID          string            `json:"id"`
	TenantID    string            `json:"tenant_id"`
	Name        string            `json:"name"`
	Identifier  string            `json:"identifier"`
	Content     string            `json:"content"`
	AccessLevel int               `json:"access_level"`
	Published   bool              `json:"published"`
	FrontendURL string            `json:"frontend_url"`
	Channels    []waypost.Channel `json:"channels"`
	PublishedAt string            `json:"published_at"`
}

// SearchKeyword is what the demo searches for.
const SearchKeyword = "退款"

// prepareArticles writes the demo's articles for a tenant of their own, unless a
// former start did. A start that was killed between two of them writes all again.
func prepareArticles(ctx context.Context, c *client.Client, d *Data) (made bool, err error) {
	first := articles[0].ID
	if d.TenantID != "" {
		err := c.Do(ctx, http.MethodGet, "/v1/articles/"+first, nil, nil)
		if waypost.CodeOf(err) != waypost.CodeNotFound {
			return false, err
		}
	} else {
		d.TenantID = uuid.NewString()
	}
	for _, a := range articles {
		a.TenantID = d.TenantID
		if err := c.Do(ctx, http.MethodPut, "/v1/articles/"+a.ID, a, nil); err != nil {
			return false, err
		}
	}
	return true, nil
}

// SearchToken issues a token for searches of the demo's articles, from the front end
// and from the administration side, that lasts as long as any token can.
func SearchToken(ctx context.Context, c *client.Client, d Data) (string, error) {
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	ask := map[string]any{"tenantIds": []string{d.TenantID}, "from": waypost.Origins, "expiresIn": int(waypost.MaxTokenExpiry / time.Second)}
	err := c.Do(ctx, http.MethodPost, "/v1/tokens", ask, &issued)
	return issued.AccessToken, err
}

// Hit is an article that a search found; both highlights are HTML.
type Hit struct {
	NameHighlight   string `json:"name_highlight"`
	SearchHighlight string `json:"search_highlight"`
}

// Search waits until a search of the front end finds something, and returns the
// first hit.
func Search(ctx context.Context, c *client.Client, token string, d Data, keywords string) (Hit, error) {
	target := "/api/v1/articles/search?" + url.Values{"tenant_id": {d.TenantID}, "from": {string(waypost.FromFrontend)}, "keywords": {keywords}}.Encode()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		var answer struct{ Message struct{ Items []Hit } }
		err := c.WithBearer(token).Do(ctx, http.MethodGet, target, nil, &answer)
		// The index is still being made, or its engine has not been reached yet.
		if err != nil && ctx.Err() == nil && waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
			return Hit{}, err
		}
		if found := answer.Message.Items; len(found) > 0 {
			return found[0], nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return Hit{}, fmt.Errorf("wait for the articles to be found: %w", err)
		case <-tick.C:
		}
	}
}

// fixedUUID is the UUID of a name, the same at every start.
func fixedUUID(name string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("waypost demo "+name)).String()
}

// The site of an invented company that rents out bicycles.
var (
	root     = channelOf("", "Kestrel Bikes 红隼单车", 0)
	help     = channelOf("help", "Help centre 帮助中心", 0)
	payments = channelOf("help/payments", "Payments 支付与发票", 0)
	news     = channelOf("news", "News 新闻", 0)
	staff    = channelOf("staff", "For our staff 员工专区", 3)
)

func channelOf(slug, name string, level int) waypost.Channel {
	return waypost.Channel{ID: fixedUUID("channel " + slug), Slug: slug, URL: "bikes.example.com/" + slug, Name: name, AccessLevel: level}
}

// path is the channels that contain an article, below the root.
type path []waypost.Channel

// articleOf is a published article of level 0.
func articleOf(in path, identifier, day, name, content string) article {
	slug := in[len(in)-1].Slug + "/" + identifier
	return article{
		ID: fixedUUID("article " + slug), Name: name, Identifier: identifier, Content: content, Published: true,
		FrontendURL: "https://bikes.example.com/" + slug, Channels: append([]waypost.Channel{root}, in...), PublishedAt: day + "T08:00:00.000Z",
	}
}

func (a article) level(n int) article { a.AccessLevel = n; return a }

func (a article) draft() article { a.Published = false; return a }

var articles = []article{
	articleOf(path{help, payments}, "deposit", "2025-09-12", "押金退款说明",
		"押金在还车后自动退还，一般三个工作日内到账。\n\n## 什么时候可以申请退款\n\n- 账户里没有未结束的行程；\n- 没有未付清的费用。\n\n"+
			"在“我的钱包”里点击“退还押金”即可。退款原路返回，信用卡可能需要五到十天。"),
	articleOf(path{help, payments}, "refunds", "2025-08-02", "Getting a refund",
		"If a bike would not unlock, or a ride was charged twice, open the ride in the app and choose **Ask for a refund** (申请退款). "+
			"We look at every request within two working days. Refunds go back to the card that was charged; the deposit is a matter of its own."),
	articleOf(path{help, payments}, "invoices", "2025-06-20", "发票与报销",
		"每月一号可以下载上个月的电子发票。公司报销需要抬头和税号，请先在“账户设置”里填好。\n\n"+
			"Invoices are PDF files; their number stands at the top right. 一张发票最多合并三十次行程。"),
	articleOf(path{help}, "unlock", "2025-03-10", "如何扫码开锁",
		"打开应用，对准车把上的二维码。锁打开后会听到“滴”的一声，行程从这时开始计费。\n\n"+
			"扫不出来？擦一擦二维码，打开手电筒，或者手动输入车架上的八位编号。"),
	articleOf(path{help}, "rain", "2025-05-04", "Riding in the rain",
		"Brake earlier than usual: wet rims need twice the distance. Stay away from tram tracks and painted lines. "+
			"Our tyres hold well on wet asphalt, but leaves in autumn are as slippery as ice."),
	articleOf(path{help}, "helmets", "2025-05-18", "Helmets 头盔怎么戴",
		"A helmet sits level, two fingers above the eyebrows. 系带要扣紧，下巴和系带之间留一根手指的空隙。\n"+
			"Every station with a green sign lends helmets for free; 归还时请放回消毒柜。"),
	articleOf(path{news}, "west-lake", "2025-10-01", "西湖边新增三个停车点",
		"国庆假期前，断桥、苏堤南口和花港观鱼三个停车点已经启用，一共一百二十个车位。假期人多，请把车停在白线以内。"),
	articleOf(path{news}, "winter-hours", "2025-11-15", "Winter hours 冬季营业时间",
		"From 1 December our service points are open from 9 to 18 o’clock. 十二月一日起，服务点的营业时间改为九点到十八点，自助还车不受影响。"),
	articleOf(path{news}, "map-on-your-page", "2025-07-07", "Our map on your page: <iframe> or <script>?",
		"Copy one line into your page and it shows the free bikes around you:\n\n    <script src=\"https://bikes.example.com/map.js\"></script>\n\n"+
			"Without scripts, <iframe src=\"https://bikes.example.com/map\"></iframe> & a fixed height do as well. Text such as <b class=\"highlight\">this</b> stays text."),
	articleOf(path{staff}, "travel-expenses", "2025-04-28", "员工差旅报销流程",
		"差旅结束后三十天内提交报销单，附上发票照片。住宿标准见附件。主管审批后，财务每周五统一付款。"),
	articleOf(path{staff}, "incidents", "2025-02-11", "Incident handbook 事故处理手册",
		"1. Help the injured, call 120. 2. Secure the bike and take pictures. 3. Tell the duty manager. 涉及赔偿和退款的问题，一律转交法务。").level(5),
	articleOf(path{news}, "spring-offer", "2026-03-01", "春季优惠（草稿）",
		"Draft: half price on all rides in March. 三月骑行半价，老用户再送一张免费券。是否支持退款待定。").draft(),
}
