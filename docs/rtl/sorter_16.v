module sorter_16(index, last, valid, best_ready, clk, rst, ready, best, best_last, best_valid, score);
  input [15:0] index;
  wire [15:0] index;
  input last;
  wire last;
  input valid;
  wire valid;
  input best_ready;
  wire best_ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output ready;
  wire ready;
  output [15:0] best;
  wire [15:0] best;
  output best_last;
  wire best_last;
  output best_valid;
  wire best_valid;
  input [15:0] score;
  wire [15:0] score;
  wire \final ;
  wire \final$20 ;
  wire \final$30 ;
  wire \final$40 ;
  wire [31:0] key;
  wire [31:0] \key$16 ;
  wire [31:0] \key$26 ;
  wire [31:0] \key$36 ;
  wire \last$12 ;
  wire \last$18 ;
  wire \last$28 ;
  wire \last$38 ;
  wire merged_final;
  wire \merged_final$31 ;
  wire \merged_final$41 ;
  wire \merged_final$47 ;
  wire [31:0] merged_key;
  wire [31:0] \merged_key$27 ;
  wire [31:0] \merged_key$37 ;
  wire [31:0] \merged_key$46 ;
  wire merged_last;
  wire \merged_last$29 ;
  wire \merged_last$39 ;
  wire merged_ready;
  wire \merged_ready$34 ;
  wire \merged_ready$44 ;
  wire \merged_ready$49 ;
  wire merged_valid;
  wire \merged_valid$33 ;
  wire \merged_valid$43 ;
  wire \merged_valid$48 ;
  wire \ready$15 ;
  wire \ready$25 ;
  wire \ready$35 ;
  wire \ready$45 ;
  wire \valid$14 ;
  wire \valid$22 ;
  wire \valid$32 ;
  wire \valid$42 ;
  \top.level_0  level_0 (
    .clk(clk),
    .\final (last),
    .merged_final(\final$20 ),
    .merged_key(\key$16 ),
    .merged_last(\last$18 ),
    .merged_ready(merged_ready),
    .merged_valid(\valid$22 ),
    .\port$0$18 (index),
    .\port$0$2 (score),
    .ready(ready),
    .rst(rst),
    .valid(valid)
  );
  \top.level_1  level_1 (
    .clk(clk),
    .\final (\final$20 ),
    .key(\key$16 ),
    .last(\last$18 ),
    .merged_final(\final$30 ),
    .merged_key(\key$26 ),
    .merged_last(\last$28 ),
    .merged_ready(\merged_ready$34 ),
    .merged_valid(\valid$32 ),
    .ready(merged_ready),
    .rst(rst),
    .valid(\valid$22 )
  );
  \top.level_2  level_2 (
    .clk(clk),
    .\final (\final$30 ),
    .key(\key$26 ),
    .last(\last$28 ),
    .merged_final(\final$40 ),
    .merged_key(\key$36 ),
    .merged_last(\last$38 ),
    .merged_ready(\merged_ready$44 ),
    .merged_valid(\valid$42 ),
    .ready(\merged_ready$34 ),
    .rst(rst),
    .valid(\valid$32 )
  );
  \top.level_3  level_3 (
    .clk(clk),
    .\final (\final$40 ),
    .key(\key$36 ),
    .last(\last$38 ),
    .merged_final(best_last),
    .merged_key(\merged_key$46 ),
    .merged_ready(best_ready),
    .merged_valid(best_valid),
    .ready(\merged_ready$44 ),
    .rst(rst),
    .valid(\valid$42 )
  );
  assign best = \merged_key$46 [15:0];
  assign \merged_ready$49  = best_ready;
  assign \merged_valid$48  = best_valid;
  assign \merged_final$47  = best_last;
  assign \ready$45  = \merged_ready$44 ;
  assign \merged_valid$43  = \valid$42 ;
  assign \merged_final$41  = \final$40 ;
  assign \merged_last$39  = \last$38 ;
  assign \merged_key$37  = \key$36 ;
  assign \ready$35  = \merged_ready$34 ;
  assign \merged_valid$33  = \valid$32 ;
  assign \merged_final$31  = \final$30 ;
  assign \merged_last$29  = \last$28 ;
  assign \merged_key$27  = \key$26 ;
  assign \ready$25  = merged_ready;
  assign merged_valid = \valid$22 ;
  assign merged_final = \final$20 ;
  assign merged_last = \last$18 ;
  assign merged_key = \key$16 ;
  assign \ready$15  = ready;
  assign \valid$14  = valid;
  assign \final  = last;
  assign \last$12  = 1'h1;
  assign key = { score, index };
endmodule

module \top.level_0 (\port$0$18 , \final , valid, clk, rst, ready, merged_ready, merged_key, merged_last, merged_final, merged_valid, \port$0$2 );
  reg \$auto$verilog_backend.cc:2505:dump_module$1  = 0;
  input [15:0] \port$0$18 ;
  wire [15:0] \port$0$18 ;
  input \final ;
  wire \final ;
  input valid;
  wire valid;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output ready;
  wire ready;
  input merged_ready;
  wire merged_ready;
  output [31:0] merged_key;
  reg [31:0] merged_key = 32'd0;
  output merged_last;
  reg merged_last = 1'h0;
  output merged_final;
  reg merged_final = 1'h0;
  output merged_valid;
  reg merged_valid = 1'h0;
  input [15:0] \port$0$2 ;
  wire [15:0] \port$0$2 ;
  wire \$1 ;
  wire [1:0] \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire \$3 ;
  wire \$30 ;
  wire [31:0] \$31 ;
  wire \$32 ;
  wire \$33 ;
  wire \$34 ;
  wire \$35 ;
  wire \$36 ;
  wire [1:0] \$37 ;
  wire [1:0] \$38 ;
  wire \$39 ;
  wire \$4 ;
  reg \$40 ;
  reg [32:0] \$41 ;
  reg [1:0] \$42 ;
  reg [34:0] \$43 ;
  reg [31:0] \$44 ;
  reg \$45 ;
  reg \$46 ;
  reg [1:0] \$47 ;
  reg \$48 ;
  reg \$49 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [1:0] \$signal ;
  wire [1:0] \$signal$13 ;
  wire \$signal$19 ;
  wire \$signal$2 ;
  reg [1:0] \$signal$20  = 2'h0;
  wire \$signal$23 ;
  wire \$signal$25 ;
  wire \$signal$27 ;
  reg \$signal$5  = 1'h0;
  reg \final$37  = 1'h0;
  wire [31:0] key;
  wire last;
  wire [32:0] r_data;
  wire [34:0] \r_data$32 ;
  wire r_en;
  wire \r_en$18 ;
  wire r_rdy;
  wire \r_rdy$33 ;
  wire stays_alone;
  wire [32:0] w_data;
  wire [34:0] \w_data$16 ;
  wire w_en;
  wire \w_en$17 ;
  wire w_rdy;
  wire \w_rdy$15 ;
  reg [32:0] word_0 = 33'h000000000;
  reg [34:0] word_1 = 35'h000000000;
  reg [1:0] words = 2'h0;
  always @(posedge clk)
    \$signal$5  <= \$40 ;
  always @(posedge clk)
    word_0 <= \$41 ;
  always @(posedge clk)
    words <= \$42 ;
  always @(posedge clk)
    word_1 <= \$43 ;
  always @(posedge clk)
    merged_key <= \$44 ;
  always @(posedge clk)
    merged_last <= \$45 ;
  always @(posedge clk)
    merged_final <= \$46 ;
  always @(posedge clk)
    \$signal$20  <= \$47 ;
  always @(posedge clk)
    \final$37  <= \$48 ;
  always @(posedge clk)
    merged_valid <= \$49 ;
  assign ready = & \$signal ;
  assign \$signal$2  = valid & ready;
  assign \$1  = ~ \$signal$5 ;
  assign stays_alone = \$1  & \final ;
  assign \$2  = ! \$signal$5 ;
  assign w_en = \$signal$2  & \$4 ;
  assign \$5  = ~ words[0];
  assign r_en = \$signal$13 [0] | \$5 ;
  assign \$8  = \$6  | \$7 ;
  assign \w_en$17  = \$signal$2  & \$8 ;
  assign \$9  = ~ words[1];
  assign \r_en$18  = \$signal$13 [1] | \$9 ;
  assign \$10  = \$signal$20  | words;
  assign \$11  = & \$10 ;
  assign \$12  = ~ merged_valid;
  assign \$13  = merged_ready | \$12 ;
  assign \$signal$19  = \$11  & \$13 ;
  assign \$14  = ~ \$signal$20 [1];
  assign \$signal$23  = word_1[34] & \$14 ;
  assign \$15  = ~ \$signal$20 [0];
  assign \$16  = \$signal$20 [1] | \$signal$23 ;
  assign \$17  = word_0[31:0] > word_1[31:0];
  assign \$18  = \$16  | \$17 ;
  assign \$signal$25  = \$15  & \$18 ;
  assign \$19  = \$signal$20 [1] | \$signal$23 ;
  assign \$20  = word_0[32] & \$19 ;
  assign \$21  = word_1[32] & \$signal$20 [0];
  assign \$signal$27  = \$signal$25  ? \$20  : \$21 ;
  assign \$22  = \$signal$19  & \$signal$25 ;
  assign \$23  = ~ \$signal$25 ;
  assign \$24  = \$signal$23  & word_0[32];
  assign \$25  = \$23  | \$24 ;
  assign \$26  = \$signal$19  & \$25 ;
  assign \$28  = ~ \$signal$5 ;
  assign \$29  = ~ \final ;
  assign \$30  = \$28  & \$29 ;
  assign \$31  = \$signal$25  ? word_0[31:0] : word_1[31:0];
  assign \$32  = \$signal$20 [1] ? \final$37  : word_1[33];
  assign \$33  = \$signal$27  & \$32 ;
  assign \$34  = \$signal$25  & word_0[32];
  assign \$35  = ~ \$signal$25 ;
  assign \$36  = \$35  & word_1[32];
  assign \$37  = \$signal$20  | { \$36 , \$34  };
  assign \$38  = \$signal$27  ? 2'h0 : \$37 ;
  assign \$39  = merged_ready | \$signal$19 ;
  \top.level_0.queue_0  queue_0 (
    .clk(clk),
    .\port$0$18 (\port$0$18 ),
    .\port$0$2 (\port$0$2 ),
    .r_data(r_data),
    .r_en(r_en),
    .r_rdy(r_rdy),
    .rst(rst),
    .w_en(w_en),
    .w_rdy(w_rdy)
  );
  \top.level_0.queue_1  queue_1 (
    .clk(clk),
    .\port$0$18 (\port$0$18 ),
    .\port$0$2 (\port$0$2 ),
    .\port$0$34 (\final ),
    .\port$4$0 (stays_alone),
    .r_data(\r_data$32 ),
    .r_en(\r_en$18 ),
    .r_rdy(\r_rdy$33 ),
    .rst(rst),
    .w_en(\w_en$17 ),
    .w_rdy(\w_rdy$15 )
  );
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$40  = \$signal$5 ;
    if (\$27 ) begin
      \$40  = \$30 ;
    end
    if (rst) begin
      \$40  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$41  = word_0;
    if (r_en) begin
      \$41  = r_data;
    end
    if (rst) begin
      \$41  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$42  = words;
    if (r_en) begin
      \$42 [0] = r_rdy;
    end
    if (\r_en$18 ) begin
      \$42 [1] = \r_rdy$33 ;
    end
    if (rst) begin
      \$42  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$43  = word_1;
    if (\r_en$18 ) begin
      \$43  = \r_data$32 ;
    end
    if (rst) begin
      \$43  = 35'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$44  = merged_key;
    if (\$signal$19 ) begin
      \$44  = \$31 ;
    end
    if (rst) begin
      \$44  = 32'd0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$45  = merged_last;
    if (\$signal$19 ) begin
      \$45  = \$signal$27 ;
    end
    if (rst) begin
      \$45  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$46  = merged_final;
    if (\$signal$19 ) begin
      \$46  = \$33 ;
    end
    if (rst) begin
      \$46  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$47  = \$signal$20 ;
    if (\$signal$19 ) begin
      \$47  = \$38 ;
    end
    if (rst) begin
      \$47  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$48  = \final$37 ;
    if (\$signal$13 [1]) begin
      \$48  = word_1[33];
    end
    if (rst) begin
      \$48  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$49  = merged_valid;
    if (\$39 ) begin
      \$49  = \$signal$19 ;
    end
    if (rst) begin
      \$49  = 1'h0;
    end
  end
  assign w_data = { 1'h1, \port$0$2 , \port$0$18  };
  assign key = { \port$0$2 , \port$0$18  };
  assign last = 1'h1;
  assign \w_data$16  = { stays_alone, \final , 1'h1, \port$0$2 , \port$0$18  };
  assign \$signal$13 [1] = \$26 ;
  assign \$signal$13 [0] = \$22 ;
  assign \$signal [1] = \w_rdy$15 ;
  assign \$signal [0] = w_rdy;
  assign \$3  = 1'h0;
  assign \$4  = \$2 ;
  assign \$6  = \$signal$5 ;
  assign \$7  = stays_alone;
  assign \$27  = \$signal$2 ;
endmodule

module \top.level_0.queue_0 (\port$0$18 , clk, rst, w_en, r_en, w_rdy, r_data, r_rdy, \port$0$2 );
  reg \$auto$verilog_backend.cc:2505:dump_module$2  = 0;
  input [15:0] \port$0$18 ;
  wire [15:0] \port$0$18 ;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [32:0] r_data;
  wire [32:0] r_data;
  output r_rdy;
  reg r_rdy = 1'h0;
  input [15:0] \port$0$2 ;
  wire [15:0] \port$0$2 ;
  wire \$1 ;
  wire \$10 ;
  wire [2:0] \$11 ;
  wire [2:0] \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire [2:0] \$26 ;
  wire \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire \$3 ;
  reg [1:0] \$30 ;
  reg [1:0] \$31 ;
  reg [1:0] \$32 ;
  reg \$33 ;
  wire \$4 ;
  wire [2:0] \$5 ;
  wire [2:0] \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [1:0] consume;
  reg [1:0] inner_level = 2'h0;
  wire inner_r_rdy;
  wire [2:0] level;
  wire [1:0] produce;
  wire [2:0] r_level;
  reg [1:0] r_port__addr = 2'h0;
  wire [32:0] r_port__data;
  wire r_port__en;
  wire [32:0] w_data;
  wire [2:0] w_level;
  reg [1:0] w_port__addr = 2'h0;
  wire [32:0] w_port__data;
  wire w_port__en;
  reg [32:0] storage [2:0];
  initial begin
    storage[0] = 33'h000000000;
    storage[1] = 33'h000000000;
    storage[2] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { 1'h1, \port$0$2 , \port$0$18  };
  end
  reg [32:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 2'h3;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign w_level = inner_level + r_rdy;
  assign \$3  = w_rdy & w_en;
  assign \$4  = w_port__addr == 2'h2;
  assign \$5  = w_port__addr + 1'h1;
  assign \$6  = \$4  ? 3'h0 : \$5 ;
  assign \$7  = ~ r_rdy;
  assign \$8  = \$7  | r_en;
  assign \$9  = inner_r_rdy & \$8 ;
  assign \$10  = r_port__addr == 2'h2;
  assign \$11  = r_port__addr + 1'h1;
  assign \$12  = \$10  ? 3'h0 : \$11 ;
  assign \$13  = w_rdy & w_en;
  assign \$14  = ~ r_rdy;
  assign \$15  = \$14  | r_en;
  assign \$16  = inner_r_rdy & \$15 ;
  assign \$17  = ~ \$16 ;
  assign \$18  = \$13  & \$17 ;
  assign \$19  = inner_level + 1'h1;
  assign \$20  = ~ r_rdy;
  assign \$21  = \$20  | r_en;
  assign \$22  = inner_r_rdy & \$21 ;
  assign \$23  = w_rdy & w_en;
  assign \$24  = ~ \$23 ;
  assign \$25  = \$22  & \$24 ;
  assign \$26  = inner_level - 1'h1;
  assign \$27  = ~ r_rdy;
  assign \$28  = \$27  | r_en;
  assign \$29  = inner_r_rdy & \$28 ;
  always @(posedge clk)
    w_port__addr <= \$30 ;
  always @(posedge clk)
    r_port__addr <= \$31 ;
  always @(posedge clk)
    inner_level <= \$32 ;
  always @(posedge clk)
    r_rdy <= \$33 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$30  = w_port__addr;
    if (\$3 ) begin
      \$30  = \$6 [1:0];
    end
    if (rst) begin
      \$30  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$31  = r_port__addr;
    if (\$9 ) begin
      \$31  = \$12 [1:0];
    end
    if (rst) begin
      \$31  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$32  = inner_level;
    if (\$18 ) begin
      \$32  = \$19 [1:0];
    end
    if (\$25 ) begin
      \$32  = \$26 [1:0];
    end
    if (rst) begin
      \$32  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$33  = r_rdy;
    if (\$29 ) begin
      \$33  = 1'h1;
    end else if (r_en) begin
      \$33  = 1'h0;
    end
    if (rst) begin
      \$33  = 1'h0;
    end
  end
  assign level = w_level;
  assign r_level = w_level;
  assign produce = w_port__addr;
  assign w_port__data = { 1'h1, \port$0$2 , \port$0$18  };
  assign w_data = { 1'h1, \port$0$2 , \port$0$18  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule

module \top.level_0.queue_1 (\port$0$18 , \port$0$34 , clk, rst, \port$4$0 , w_en, r_en, w_rdy, r_data, r_rdy, \port$0$2 );
  reg \$auto$verilog_backend.cc:2505:dump_module$3  = 0;
  input [15:0] \port$0$18 ;
  wire [15:0] \port$0$18 ;
  input \port$0$34 ;
  wire \port$0$34 ;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input \port$4$0 ;
  wire \port$4$0 ;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [34:0] r_data;
  wire [34:0] r_data;
  output r_rdy;
  reg r_rdy = 1'h0;
  input [15:0] \port$0$2 ;
  wire [15:0] \port$0$2 ;
  wire \$1 ;
  wire \$10 ;
  wire [2:0] \$11 ;
  wire [2:0] \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire [2:0] \$26 ;
  wire \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire \$3 ;
  reg [1:0] \$30 ;
  reg [1:0] \$31 ;
  reg [1:0] \$32 ;
  reg \$33 ;
  wire \$4 ;
  wire [2:0] \$5 ;
  wire [2:0] \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [1:0] consume;
  reg [1:0] inner_level = 2'h0;
  wire inner_r_rdy;
  wire [2:0] level;
  wire [1:0] produce;
  wire [2:0] r_level;
  reg [1:0] r_port__addr = 2'h0;
  wire [34:0] r_port__data;
  wire r_port__en;
  wire [34:0] w_data;
  wire [2:0] w_level;
  reg [1:0] w_port__addr = 2'h0;
  wire [34:0] w_port__data;
  wire w_port__en;
  reg [34:0] storage [2:0];
  initial begin
    storage[0] = 35'h000000000;
    storage[1] = 35'h000000000;
    storage[2] = 35'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { \port$4$0 , \port$0$34 , 1'h1, \port$0$2 , \port$0$18  };
  end
  reg [34:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 2'h3;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign w_level = inner_level + r_rdy;
  assign \$3  = w_rdy & w_en;
  assign \$4  = w_port__addr == 2'h2;
  assign \$5  = w_port__addr + 1'h1;
  assign \$6  = \$4  ? 3'h0 : \$5 ;
  assign \$7  = ~ r_rdy;
  assign \$8  = \$7  | r_en;
  assign \$9  = inner_r_rdy & \$8 ;
  assign \$10  = r_port__addr == 2'h2;
  assign \$11  = r_port__addr + 1'h1;
  assign \$12  = \$10  ? 3'h0 : \$11 ;
  assign \$13  = w_rdy & w_en;
  assign \$14  = ~ r_rdy;
  assign \$15  = \$14  | r_en;
  assign \$16  = inner_r_rdy & \$15 ;
  assign \$17  = ~ \$16 ;
  assign \$18  = \$13  & \$17 ;
  assign \$19  = inner_level + 1'h1;
  assign \$20  = ~ r_rdy;
  assign \$21  = \$20  | r_en;
  assign \$22  = inner_r_rdy & \$21 ;
  assign \$23  = w_rdy & w_en;
  assign \$24  = ~ \$23 ;
  assign \$25  = \$22  & \$24 ;
  assign \$26  = inner_level - 1'h1;
  assign \$27  = ~ r_rdy;
  assign \$28  = \$27  | r_en;
  assign \$29  = inner_r_rdy & \$28 ;
  always @(posedge clk)
    w_port__addr <= \$30 ;
  always @(posedge clk)
    r_port__addr <= \$31 ;
  always @(posedge clk)
    inner_level <= \$32 ;
  always @(posedge clk)
    r_rdy <= \$33 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$30  = w_port__addr;
    if (\$3 ) begin
      \$30  = \$6 [1:0];
    end
    if (rst) begin
      \$30  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$31  = r_port__addr;
    if (\$9 ) begin
      \$31  = \$12 [1:0];
    end
    if (rst) begin
      \$31  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$32  = inner_level;
    if (\$18 ) begin
      \$32  = \$19 [1:0];
    end
    if (\$25 ) begin
      \$32  = \$26 [1:0];
    end
    if (rst) begin
      \$32  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$33  = r_rdy;
    if (\$29 ) begin
      \$33  = 1'h1;
    end else if (r_en) begin
      \$33  = 1'h0;
    end
    if (rst) begin
      \$33  = 1'h0;
    end
  end
  assign level = w_level;
  assign r_level = w_level;
  assign produce = w_port__addr;
  assign w_port__data = { \port$4$0 , \port$0$34 , 1'h1, \port$0$2 , \port$0$18  };
  assign w_data = { \port$4$0 , \port$0$34 , 1'h1, \port$0$2 , \port$0$18  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule

module \top.level_1 (rst, ready, merged_ready, key, last, \final , valid, merged_key, merged_last, merged_final, merged_valid, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$4  = 0;
  input rst;
  wire rst;
  output ready;
  wire ready;
  input merged_ready;
  wire merged_ready;
  input [31:0] key;
  wire [31:0] key;
  input last;
  wire last;
  input \final ;
  wire \final ;
  input valid;
  wire valid;
  output [31:0] merged_key;
  reg [31:0] merged_key = 32'd0;
  output merged_last;
  reg merged_last = 1'h0;
  output merged_final;
  reg merged_final = 1'h0;
  output merged_valid;
  reg merged_valid = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire [1:0] \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire \$3 ;
  wire \$30 ;
  wire [31:0] \$31 ;
  wire \$32 ;
  wire \$33 ;
  wire \$34 ;
  wire \$35 ;
  wire \$36 ;
  wire [1:0] \$37 ;
  wire [1:0] \$38 ;
  wire \$39 ;
  wire \$4 ;
  reg \$40 ;
  reg [32:0] \$41 ;
  reg [1:0] \$42 ;
  reg [34:0] \$43 ;
  reg [31:0] \$44 ;
  reg \$45 ;
  reg \$46 ;
  reg [1:0] \$47 ;
  reg \$48 ;
  reg \$49 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [1:0] \$signal ;
  wire [1:0] \$signal$13 ;
  wire \$signal$19 ;
  wire \$signal$2 ;
  reg [1:0] \$signal$20  = 2'h0;
  wire \$signal$23 ;
  wire \$signal$25 ;
  wire \$signal$27 ;
  reg \$signal$5  = 1'h0;
  reg \final$37  = 1'h0;
  wire [32:0] r_data;
  wire [34:0] \r_data$32 ;
  wire r_en;
  wire \r_en$18 ;
  wire r_rdy;
  wire \r_rdy$33 ;
  wire stays_alone;
  wire [32:0] w_data;
  wire [34:0] \w_data$16 ;
  wire w_en;
  wire \w_en$17 ;
  wire w_rdy;
  wire \w_rdy$15 ;
  reg [32:0] word_0 = 33'h000000000;
  reg [34:0] word_1 = 35'h000000000;
  reg [1:0] words = 2'h0;
  always @(posedge clk)
    \$signal$5  <= \$40 ;
  always @(posedge clk)
    word_0 <= \$41 ;
  always @(posedge clk)
    words <= \$42 ;
  always @(posedge clk)
    word_1 <= \$43 ;
  always @(posedge clk)
    merged_key <= \$44 ;
  always @(posedge clk)
    merged_last <= \$45 ;
  always @(posedge clk)
    merged_final <= \$46 ;
  always @(posedge clk)
    \$signal$20  <= \$47 ;
  always @(posedge clk)
    \final$37  <= \$48 ;
  always @(posedge clk)
    merged_valid <= \$49 ;
  assign ready = & \$signal ;
  assign \$signal$2  = valid & ready;
  assign \$1  = ~ \$signal$5 ;
  assign stays_alone = \$1  & \final ;
  assign \$2  = ! \$signal$5 ;
  assign w_en = \$signal$2  & \$4 ;
  assign \$5  = ~ words[0];
  assign r_en = \$signal$13 [0] | \$5 ;
  assign \$8  = \$6  | \$7 ;
  assign \w_en$17  = \$signal$2  & \$8 ;
  assign \$9  = ~ words[1];
  assign \r_en$18  = \$signal$13 [1] | \$9 ;
  assign \$10  = \$signal$20  | words;
  assign \$11  = & \$10 ;
  assign \$12  = ~ merged_valid;
  assign \$13  = merged_ready | \$12 ;
  assign \$signal$19  = \$11  & \$13 ;
  assign \$14  = ~ \$signal$20 [1];
  assign \$signal$23  = word_1[34] & \$14 ;
  assign \$15  = ~ \$signal$20 [0];
  assign \$16  = \$signal$20 [1] | \$signal$23 ;
  assign \$17  = word_0[31:0] > word_1[31:0];
  assign \$18  = \$16  | \$17 ;
  assign \$signal$25  = \$15  & \$18 ;
  assign \$19  = \$signal$20 [1] | \$signal$23 ;
  assign \$20  = word_0[32] & \$19 ;
  assign \$21  = word_1[32] & \$signal$20 [0];
  assign \$signal$27  = \$signal$25  ? \$20  : \$21 ;
  assign \$22  = \$signal$19  & \$signal$25 ;
  assign \$23  = ~ \$signal$25 ;
  assign \$24  = \$signal$23  & word_0[32];
  assign \$25  = \$23  | \$24 ;
  assign \$26  = \$signal$19  & \$25 ;
  assign \$27  = \$signal$2  & last;
  assign \$28  = ~ \$signal$5 ;
  assign \$29  = ~ \final ;
  assign \$30  = \$28  & \$29 ;
  assign \$31  = \$signal$25  ? word_0[31:0] : word_1[31:0];
  assign \$32  = \$signal$20 [1] ? \final$37  : word_1[33];
  assign \$33  = \$signal$27  & \$32 ;
  assign \$34  = \$signal$25  & word_0[32];
  assign \$35  = ~ \$signal$25 ;
  assign \$36  = \$35  & word_1[32];
  assign \$37  = \$signal$20  | { \$36 , \$34  };
  assign \$38  = \$signal$27  ? 2'h0 : \$37 ;
  assign \$39  = merged_ready | \$signal$19 ;
  \top.level_1.queue_0  queue_0 (
    .clk(clk),
    .\port$638$0 (key),
    .\port$640$0 (last),
    .r_data(r_data),
    .r_en(r_en),
    .r_rdy(r_rdy),
    .rst(rst),
    .w_en(w_en),
    .w_rdy(w_rdy)
  );
  \top.level_1.queue_1  queue_1 (
    .clk(clk),
    .\port$162$0 (stays_alone),
    .\port$638$0 (key),
    .\port$640$0 (last),
    .\port$642$0 (\final ),
    .r_data(\r_data$32 ),
    .r_en(\r_en$18 ),
    .r_rdy(\r_rdy$33 ),
    .rst(rst),
    .w_en(\w_en$17 ),
    .w_rdy(\w_rdy$15 )
  );
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$40  = \$signal$5 ;
    if (\$27 ) begin
      \$40  = \$30 ;
    end
    if (rst) begin
      \$40  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$41  = word_0;
    if (r_en) begin
      \$41  = r_data;
    end
    if (rst) begin
      \$41  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$42  = words;
    if (r_en) begin
      \$42 [0] = r_rdy;
    end
    if (\r_en$18 ) begin
      \$42 [1] = \r_rdy$33 ;
    end
    if (rst) begin
      \$42  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$43  = word_1;
    if (\r_en$18 ) begin
      \$43  = \r_data$32 ;
    end
    if (rst) begin
      \$43  = 35'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$44  = merged_key;
    if (\$signal$19 ) begin
      \$44  = \$31 ;
    end
    if (rst) begin
      \$44  = 32'd0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$45  = merged_last;
    if (\$signal$19 ) begin
      \$45  = \$signal$27 ;
    end
    if (rst) begin
      \$45  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$46  = merged_final;
    if (\$signal$19 ) begin
      \$46  = \$33 ;
    end
    if (rst) begin
      \$46  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$47  = \$signal$20 ;
    if (\$signal$19 ) begin
      \$47  = \$38 ;
    end
    if (rst) begin
      \$47  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$48  = \final$37 ;
    if (\$signal$13 [1]) begin
      \$48  = word_1[33];
    end
    if (rst) begin
      \$48  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$49  = merged_valid;
    if (\$39 ) begin
      \$49  = \$signal$19 ;
    end
    if (rst) begin
      \$49  = 1'h0;
    end
  end
  assign w_data = { last, key };
  assign \w_data$16  = { stays_alone, \final , last, key };
  assign \$signal$13 [1] = \$26 ;
  assign \$signal$13 [0] = \$22 ;
  assign \$signal [1] = \w_rdy$15 ;
  assign \$signal [0] = w_rdy;
  assign \$3  = 1'h0;
  assign \$4  = \$2 ;
  assign \$6  = \$signal$5 ;
  assign \$7  = stays_alone;
endmodule

module \top.level_1.queue_0 (rst, w_en, r_en, w_rdy, r_data, \port$638$0 , \port$640$0 , r_rdy, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$5  = 0;
  input rst;
  wire rst;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [32:0] r_data;
  wire [32:0] r_data;
  input [31:0] \port$638$0 ;
  wire [31:0] \port$638$0 ;
  input \port$640$0 ;
  wire \port$640$0 ;
  output r_rdy;
  reg r_rdy = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire [3:0] \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire [3:0] \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  reg [1:0] \$27 ;
  reg [1:0] \$28 ;
  reg [2:0] \$29 ;
  wire [3:0] \$3 ;
  reg \$30 ;
  wire \$4 ;
  wire [2:0] \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [2:0] \$9 ;
  wire [1:0] consume;
  reg [2:0] inner_level = 3'h0;
  wire inner_r_rdy;
  wire [2:0] level;
  wire [1:0] produce;
  wire [2:0] r_level;
  reg [1:0] r_port__addr = 2'h0;
  wire [32:0] r_port__data;
  wire r_port__en;
  wire [32:0] w_data;
  wire [2:0] w_level;
  reg [1:0] w_port__addr = 2'h0;
  wire [32:0] w_port__data;
  wire w_port__en;
  reg [32:0] storage [3:0];
  initial begin
    storage[0] = 33'h000000000;
    storage[1] = 33'h000000000;
    storage[2] = 33'h000000000;
    storage[3] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { \port$640$0 , \port$638$0  };
  end
  reg [32:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 3'h4;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign \$3  = inner_level + r_rdy;
  assign \$4  = w_rdy & w_en;
  assign \$5  = w_port__addr + 1'h1;
  assign \$6  = ~ r_rdy;
  assign \$7  = \$6  | r_en;
  assign \$8  = inner_r_rdy & \$7 ;
  assign \$9  = r_port__addr + 1'h1;
  assign \$10  = w_rdy & w_en;
  assign \$11  = ~ r_rdy;
  assign \$12  = \$11  | r_en;
  assign \$13  = inner_r_rdy & \$12 ;
  assign \$14  = ~ \$13 ;
  assign \$15  = \$10  & \$14 ;
  assign \$16  = inner_level + 1'h1;
  assign \$17  = ~ r_rdy;
  assign \$18  = \$17  | r_en;
  assign \$19  = inner_r_rdy & \$18 ;
  assign \$20  = w_rdy & w_en;
  assign \$21  = ~ \$20 ;
  assign \$22  = \$19  & \$21 ;
  assign \$23  = inner_level - 1'h1;
  assign \$24  = ~ r_rdy;
  assign \$25  = \$24  | r_en;
  assign \$26  = inner_r_rdy & \$25 ;
  always @(posedge clk)
    w_port__addr <= \$27 ;
  always @(posedge clk)
    r_port__addr <= \$28 ;
  always @(posedge clk)
    inner_level <= \$29 ;
  always @(posedge clk)
    r_rdy <= \$30 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$27  = w_port__addr;
    if (\$4 ) begin
      \$27  = \$5 [1:0];
    end
    if (rst) begin
      \$27  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$28  = r_port__addr;
    if (\$8 ) begin
      \$28  = \$9 [1:0];
    end
    if (rst) begin
      \$28  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$29  = inner_level;
    if (\$15 ) begin
      \$29  = \$16 [2:0];
    end
    if (\$22 ) begin
      \$29  = \$23 [2:0];
    end
    if (rst) begin
      \$29  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$30  = r_rdy;
    if (\$26 ) begin
      \$30  = 1'h1;
    end else if (r_en) begin
      \$30  = 1'h0;
    end
    if (rst) begin
      \$30  = 1'h0;
    end
  end
  assign w_level = \$3 [2:0];
  assign level = \$3 [2:0];
  assign r_level = \$3 [2:0];
  assign produce = w_port__addr;
  assign w_port__data = { \port$640$0 , \port$638$0  };
  assign w_data = { \port$640$0 , \port$638$0  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule

module \top.level_1.queue_1 (rst, \port$162$0 , w_en, r_en, w_rdy, r_data, \port$638$0 , \port$640$0 , \port$642$0 , r_rdy, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$6  = 0;
  input rst;
  wire rst;
  input \port$162$0 ;
  wire \port$162$0 ;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [34:0] r_data;
  wire [34:0] r_data;
  input [31:0] \port$638$0 ;
  wire [31:0] \port$638$0 ;
  input \port$640$0 ;
  wire \port$640$0 ;
  input \port$642$0 ;
  wire \port$642$0 ;
  output r_rdy;
  reg r_rdy = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire [3:0] \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire [3:0] \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  reg [1:0] \$27 ;
  reg [1:0] \$28 ;
  reg [2:0] \$29 ;
  wire [3:0] \$3 ;
  reg \$30 ;
  wire \$4 ;
  wire [2:0] \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [2:0] \$9 ;
  wire [1:0] consume;
  reg [2:0] inner_level = 3'h0;
  wire inner_r_rdy;
  wire [2:0] level;
  wire [1:0] produce;
  wire [2:0] r_level;
  reg [1:0] r_port__addr = 2'h0;
  wire [34:0] r_port__data;
  wire r_port__en;
  wire [34:0] w_data;
  wire [2:0] w_level;
  reg [1:0] w_port__addr = 2'h0;
  wire [34:0] w_port__data;
  wire w_port__en;
  reg [34:0] storage [3:0];
  initial begin
    storage[0] = 35'h000000000;
    storage[1] = 35'h000000000;
    storage[2] = 35'h000000000;
    storage[3] = 35'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { \port$162$0 , \port$642$0 , \port$640$0 , \port$638$0  };
  end
  reg [34:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 3'h4;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign \$3  = inner_level + r_rdy;
  assign \$4  = w_rdy & w_en;
  assign \$5  = w_port__addr + 1'h1;
  assign \$6  = ~ r_rdy;
  assign \$7  = \$6  | r_en;
  assign \$8  = inner_r_rdy & \$7 ;
  assign \$9  = r_port__addr + 1'h1;
  assign \$10  = w_rdy & w_en;
  assign \$11  = ~ r_rdy;
  assign \$12  = \$11  | r_en;
  assign \$13  = inner_r_rdy & \$12 ;
  assign \$14  = ~ \$13 ;
  assign \$15  = \$10  & \$14 ;
  assign \$16  = inner_level + 1'h1;
  assign \$17  = ~ r_rdy;
  assign \$18  = \$17  | r_en;
  assign \$19  = inner_r_rdy & \$18 ;
  assign \$20  = w_rdy & w_en;
  assign \$21  = ~ \$20 ;
  assign \$22  = \$19  & \$21 ;
  assign \$23  = inner_level - 1'h1;
  assign \$24  = ~ r_rdy;
  assign \$25  = \$24  | r_en;
  assign \$26  = inner_r_rdy & \$25 ;
  always @(posedge clk)
    w_port__addr <= \$27 ;
  always @(posedge clk)
    r_port__addr <= \$28 ;
  always @(posedge clk)
    inner_level <= \$29 ;
  always @(posedge clk)
    r_rdy <= \$30 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$6 ) begin end
    \$27  = w_port__addr;
    if (\$4 ) begin
      \$27  = \$5 [1:0];
    end
    if (rst) begin
      \$27  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$6 ) begin end
    \$28  = r_port__addr;
    if (\$8 ) begin
      \$28  = \$9 [1:0];
    end
    if (rst) begin
      \$28  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$6 ) begin end
    \$29  = inner_level;
    if (\$15 ) begin
      \$29  = \$16 [2:0];
    end
    if (\$22 ) begin
      \$29  = \$23 [2:0];
    end
    if (rst) begin
      \$29  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$6 ) begin end
    \$30  = r_rdy;
    if (\$26 ) begin
      \$30  = 1'h1;
    end else if (r_en) begin
      \$30  = 1'h0;
    end
    if (rst) begin
      \$30  = 1'h0;
    end
  end
  assign w_level = \$3 [2:0];
  assign level = \$3 [2:0];
  assign r_level = \$3 [2:0];
  assign produce = w_port__addr;
  assign w_port__data = { \port$162$0 , \port$642$0 , \port$640$0 , \port$638$0  };
  assign w_data = { \port$162$0 , \port$642$0 , \port$640$0 , \port$638$0  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule

module \top.level_2 (rst, ready, merged_ready, key, last, \final , valid, merged_key, merged_last, merged_final, merged_valid, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$7  = 0;
  input rst;
  wire rst;
  output ready;
  wire ready;
  input merged_ready;
  wire merged_ready;
  input [31:0] key;
  wire [31:0] key;
  input last;
  wire last;
  input \final ;
  wire \final ;
  input valid;
  wire valid;
  output [31:0] merged_key;
  reg [31:0] merged_key = 32'd0;
  output merged_last;
  reg merged_last = 1'h0;
  output merged_final;
  reg merged_final = 1'h0;
  output merged_valid;
  reg merged_valid = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire [1:0] \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire \$3 ;
  wire \$30 ;
  wire [31:0] \$31 ;
  wire \$32 ;
  wire \$33 ;
  wire \$34 ;
  wire \$35 ;
  wire \$36 ;
  wire [1:0] \$37 ;
  wire [1:0] \$38 ;
  wire \$39 ;
  wire \$4 ;
  reg \$40 ;
  reg [32:0] \$41 ;
  reg [1:0] \$42 ;
  reg [34:0] \$43 ;
  reg [31:0] \$44 ;
  reg \$45 ;
  reg \$46 ;
  reg [1:0] \$47 ;
  reg \$48 ;
  reg \$49 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [1:0] \$signal ;
  wire [1:0] \$signal$13 ;
  wire \$signal$19 ;
  wire \$signal$2 ;
  reg [1:0] \$signal$20  = 2'h0;
  wire \$signal$23 ;
  wire \$signal$25 ;
  wire \$signal$27 ;
  reg \$signal$5  = 1'h0;
  reg \final$37  = 1'h0;
  wire [32:0] r_data;
  wire [34:0] \r_data$32 ;
  wire r_en;
  wire \r_en$18 ;
  wire r_rdy;
  wire \r_rdy$33 ;
  wire stays_alone;
  wire [32:0] w_data;
  wire [34:0] \w_data$16 ;
  wire w_en;
  wire \w_en$17 ;
  wire w_rdy;
  wire \w_rdy$15 ;
  reg [32:0] word_0 = 33'h000000000;
  reg [34:0] word_1 = 35'h000000000;
  reg [1:0] words = 2'h0;
  always @(posedge clk)
    \$signal$5  <= \$40 ;
  always @(posedge clk)
    word_0 <= \$41 ;
  always @(posedge clk)
    words <= \$42 ;
  always @(posedge clk)
    word_1 <= \$43 ;
  always @(posedge clk)
    merged_key <= \$44 ;
  always @(posedge clk)
    merged_last <= \$45 ;
  always @(posedge clk)
    merged_final <= \$46 ;
  always @(posedge clk)
    \$signal$20  <= \$47 ;
  always @(posedge clk)
    \final$37  <= \$48 ;
  always @(posedge clk)
    merged_valid <= \$49 ;
  assign ready = & \$signal ;
  assign \$signal$2  = valid & ready;
  assign \$1  = ~ \$signal$5 ;
  assign stays_alone = \$1  & \final ;
  assign \$2  = ! \$signal$5 ;
  assign w_en = \$signal$2  & \$4 ;
  assign \$5  = ~ words[0];
  assign r_en = \$signal$13 [0] | \$5 ;
  assign \$8  = \$6  | \$7 ;
  assign \w_en$17  = \$signal$2  & \$8 ;
  assign \$9  = ~ words[1];
  assign \r_en$18  = \$signal$13 [1] | \$9 ;
  assign \$10  = \$signal$20  | words;
  assign \$11  = & \$10 ;
  assign \$12  = ~ merged_valid;
  assign \$13  = merged_ready | \$12 ;
  assign \$signal$19  = \$11  & \$13 ;
  assign \$14  = ~ \$signal$20 [1];
  assign \$signal$23  = word_1[34] & \$14 ;
  assign \$15  = ~ \$signal$20 [0];
  assign \$16  = \$signal$20 [1] | \$signal$23 ;
  assign \$17  = word_0[31:0] > word_1[31:0];
  assign \$18  = \$16  | \$17 ;
  assign \$signal$25  = \$15  & \$18 ;
  assign \$19  = \$signal$20 [1] | \$signal$23 ;
  assign \$20  = word_0[32] & \$19 ;
  assign \$21  = word_1[32] & \$signal$20 [0];
  assign \$signal$27  = \$signal$25  ? \$20  : \$21 ;
  assign \$22  = \$signal$19  & \$signal$25 ;
  assign \$23  = ~ \$signal$25 ;
  assign \$24  = \$signal$23  & word_0[32];
  assign \$25  = \$23  | \$24 ;
  assign \$26  = \$signal$19  & \$25 ;
  assign \$27  = \$signal$2  & last;
  assign \$28  = ~ \$signal$5 ;
  assign \$29  = ~ \final ;
  assign \$30  = \$28  & \$29 ;
  assign \$31  = \$signal$25  ? word_0[31:0] : word_1[31:0];
  assign \$32  = \$signal$20 [1] ? \final$37  : word_1[33];
  assign \$33  = \$signal$27  & \$32 ;
  assign \$34  = \$signal$25  & word_0[32];
  assign \$35  = ~ \$signal$25 ;
  assign \$36  = \$35  & word_1[32];
  assign \$37  = \$signal$20  | { \$36 , \$34  };
  assign \$38  = \$signal$27  ? 2'h0 : \$37 ;
  assign \$39  = merged_ready | \$signal$19 ;
  \top.level_2.queue_0  queue_0 (
    .clk(clk),
    .\port$682$0 (key),
    .\port$684$0 (last),
    .r_data(r_data),
    .r_en(r_en),
    .r_rdy(r_rdy),
    .rst(rst),
    .w_en(w_en),
    .w_rdy(w_rdy)
  );
  \top.level_2.queue_1  queue_1 (
    .clk(clk),
    .\port$312$0 (stays_alone),
    .\port$682$0 (key),
    .\port$684$0 (last),
    .\port$686$0 (\final ),
    .r_data(\r_data$32 ),
    .r_en(\r_en$18 ),
    .r_rdy(\r_rdy$33 ),
    .rst(rst),
    .w_en(\w_en$17 ),
    .w_rdy(\w_rdy$15 )
  );
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$40  = \$signal$5 ;
    if (\$27 ) begin
      \$40  = \$30 ;
    end
    if (rst) begin
      \$40  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$41  = word_0;
    if (r_en) begin
      \$41  = r_data;
    end
    if (rst) begin
      \$41  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$42  = words;
    if (r_en) begin
      \$42 [0] = r_rdy;
    end
    if (\r_en$18 ) begin
      \$42 [1] = \r_rdy$33 ;
    end
    if (rst) begin
      \$42  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$43  = word_1;
    if (\r_en$18 ) begin
      \$43  = \r_data$32 ;
    end
    if (rst) begin
      \$43  = 35'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$44  = merged_key;
    if (\$signal$19 ) begin
      \$44  = \$31 ;
    end
    if (rst) begin
      \$44  = 32'd0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$45  = merged_last;
    if (\$signal$19 ) begin
      \$45  = \$signal$27 ;
    end
    if (rst) begin
      \$45  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$46  = merged_final;
    if (\$signal$19 ) begin
      \$46  = \$33 ;
    end
    if (rst) begin
      \$46  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$47  = \$signal$20 ;
    if (\$signal$19 ) begin
      \$47  = \$38 ;
    end
    if (rst) begin
      \$47  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$48  = \final$37 ;
    if (\$signal$13 [1]) begin
      \$48  = word_1[33];
    end
    if (rst) begin
      \$48  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$7 ) begin end
    \$49  = merged_valid;
    if (\$39 ) begin
      \$49  = \$signal$19 ;
    end
    if (rst) begin
      \$49  = 1'h0;
    end
  end
  assign w_data = { last, key };
  assign \w_data$16  = { stays_alone, \final , last, key };
  assign \$signal$13 [1] = \$26 ;
  assign \$signal$13 [0] = \$22 ;
  assign \$signal [1] = \w_rdy$15 ;
  assign \$signal [0] = w_rdy;
  assign \$3  = 1'h0;
  assign \$4  = \$2 ;
  assign \$6  = \$signal$5 ;
  assign \$7  = stays_alone;
endmodule

module \top.level_2.queue_0 (rst, w_en, r_en, w_rdy, r_data, \port$682$0 , \port$684$0 , r_rdy, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$8  = 0;
  input rst;
  wire rst;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [32:0] r_data;
  wire [32:0] r_data;
  input [31:0] \port$682$0 ;
  wire [31:0] \port$682$0 ;
  input \port$684$0 ;
  wire \port$684$0 ;
  output r_rdy;
  reg r_rdy = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire [3:0] \$12 ;
  wire [3:0] \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire [3:0] \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire [3:0] \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire [3:0] \$3 ;
  wire \$30 ;
  reg [2:0] \$31 ;
  reg [2:0] \$32 ;
  reg [2:0] \$33 ;
  reg \$34 ;
  wire \$4 ;
  wire \$5 ;
  wire [3:0] \$6 ;
  wire [3:0] \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [2:0] consume;
  reg [2:0] inner_level = 3'h0;
  wire inner_r_rdy;
  wire [2:0] level;
  wire [2:0] produce;
  wire [2:0] r_level;
  reg [2:0] r_port__addr = 3'h0;
  wire [32:0] r_port__data;
  wire r_port__en;
  wire [32:0] w_data;
  wire [2:0] w_level;
  reg [2:0] w_port__addr = 3'h0;
  wire [32:0] w_port__data;
  wire w_port__en;
  reg [32:0] storage [5:0];
  initial begin
    storage[0] = 33'h000000000;
    storage[1] = 33'h000000000;
    storage[2] = 33'h000000000;
    storage[3] = 33'h000000000;
    storage[4] = 33'h000000000;
    storage[5] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { \port$684$0 , \port$682$0  };
  end
  reg [32:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 3'h6;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign \$3  = inner_level + r_rdy;
  assign \$4  = w_rdy & w_en;
  assign \$5  = w_port__addr == 3'h5;
  assign \$6  = w_port__addr + 1'h1;
  assign \$7  = \$5  ? 4'h0 : \$6 ;
  assign \$8  = ~ r_rdy;
  assign \$9  = \$8  | r_en;
  assign \$10  = inner_r_rdy & \$9 ;
  assign \$11  = r_port__addr == 3'h5;
  assign \$12  = r_port__addr + 1'h1;
  assign \$13  = \$11  ? 4'h0 : \$12 ;
  assign \$14  = w_rdy & w_en;
  assign \$15  = ~ r_rdy;
  assign \$16  = \$15  | r_en;
  assign \$17  = inner_r_rdy & \$16 ;
  assign \$18  = ~ \$17 ;
  assign \$19  = \$14  & \$18 ;
  assign \$20  = inner_level + 1'h1;
  assign \$21  = ~ r_rdy;
  assign \$22  = \$21  | r_en;
  assign \$23  = inner_r_rdy & \$22 ;
  assign \$24  = w_rdy & w_en;
  assign \$25  = ~ \$24 ;
  assign \$26  = \$23  & \$25 ;
  assign \$27  = inner_level - 1'h1;
  assign \$28  = ~ r_rdy;
  assign \$29  = \$28  | r_en;
  assign \$30  = inner_r_rdy & \$29 ;
  always @(posedge clk)
    w_port__addr <= \$31 ;
  always @(posedge clk)
    r_port__addr <= \$32 ;
  always @(posedge clk)
    inner_level <= \$33 ;
  always @(posedge clk)
    r_rdy <= \$34 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$8 ) begin end
    \$31  = w_port__addr;
    if (\$4 ) begin
      \$31  = \$7 [2:0];
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$8 ) begin end
    \$32  = r_port__addr;
    if (\$10 ) begin
      \$32  = \$13 [2:0];
    end
    if (rst) begin
      \$32  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$8 ) begin end
    \$33  = inner_level;
    if (\$19 ) begin
      \$33  = \$20 [2:0];
    end
    if (\$26 ) begin
      \$33  = \$27 [2:0];
    end
    if (rst) begin
      \$33  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$8 ) begin end
    \$34  = r_rdy;
    if (\$30 ) begin
      \$34  = 1'h1;
    end else if (r_en) begin
      \$34  = 1'h0;
    end
    if (rst) begin
      \$34  = 1'h0;
    end
  end
  assign w_level = \$3 [2:0];
  assign level = \$3 [2:0];
  assign r_level = \$3 [2:0];
  assign produce = w_port__addr;
  assign w_port__data = { \port$684$0 , \port$682$0  };
  assign w_data = { \port$684$0 , \port$682$0  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule

module \top.level_2.queue_1 (rst, \port$312$0 , w_en, r_en, w_rdy, r_data, \port$682$0 , \port$684$0 , \port$686$0 , r_rdy, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$9  = 0;
  input rst;
  wire rst;
  input \port$312$0 ;
  wire \port$312$0 ;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [34:0] r_data;
  wire [34:0] r_data;
  input [31:0] \port$682$0 ;
  wire [31:0] \port$682$0 ;
  input \port$684$0 ;
  wire \port$684$0 ;
  input \port$686$0 ;
  wire \port$686$0 ;
  output r_rdy;
  reg r_rdy = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire [3:0] \$12 ;
  wire [3:0] \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire [3:0] \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire [3:0] \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire [3:0] \$3 ;
  wire \$30 ;
  reg [2:0] \$31 ;
  reg [2:0] \$32 ;
  reg [2:0] \$33 ;
  reg \$34 ;
  wire \$4 ;
  wire \$5 ;
  wire [3:0] \$6 ;
  wire [3:0] \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [2:0] consume;
  reg [2:0] inner_level = 3'h0;
  wire inner_r_rdy;
  wire [2:0] level;
  wire [2:0] produce;
  wire [2:0] r_level;
  reg [2:0] r_port__addr = 3'h0;
  wire [34:0] r_port__data;
  wire r_port__en;
  wire [34:0] w_data;
  wire [2:0] w_level;
  reg [2:0] w_port__addr = 3'h0;
  wire [34:0] w_port__data;
  wire w_port__en;
  reg [34:0] storage [5:0];
  initial begin
    storage[0] = 35'h000000000;
    storage[1] = 35'h000000000;
    storage[2] = 35'h000000000;
    storage[3] = 35'h000000000;
    storage[4] = 35'h000000000;
    storage[5] = 35'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { \port$312$0 , \port$686$0 , \port$684$0 , \port$682$0  };
  end
  reg [34:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 3'h6;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign \$3  = inner_level + r_rdy;
  assign \$4  = w_rdy & w_en;
  assign \$5  = w_port__addr == 3'h5;
  assign \$6  = w_port__addr + 1'h1;
  assign \$7  = \$5  ? 4'h0 : \$6 ;
  assign \$8  = ~ r_rdy;
  assign \$9  = \$8  | r_en;
  assign \$10  = inner_r_rdy & \$9 ;
  assign \$11  = r_port__addr == 3'h5;
  assign \$12  = r_port__addr + 1'h1;
  assign \$13  = \$11  ? 4'h0 : \$12 ;
  assign \$14  = w_rdy & w_en;
  assign \$15  = ~ r_rdy;
  assign \$16  = \$15  | r_en;
  assign \$17  = inner_r_rdy & \$16 ;
  assign \$18  = ~ \$17 ;
  assign \$19  = \$14  & \$18 ;
  assign \$20  = inner_level + 1'h1;
  assign \$21  = ~ r_rdy;
  assign \$22  = \$21  | r_en;
  assign \$23  = inner_r_rdy & \$22 ;
  assign \$24  = w_rdy & w_en;
  assign \$25  = ~ \$24 ;
  assign \$26  = \$23  & \$25 ;
  assign \$27  = inner_level - 1'h1;
  assign \$28  = ~ r_rdy;
  assign \$29  = \$28  | r_en;
  assign \$30  = inner_r_rdy & \$29 ;
  always @(posedge clk)
    w_port__addr <= \$31 ;
  always @(posedge clk)
    r_port__addr <= \$32 ;
  always @(posedge clk)
    inner_level <= \$33 ;
  always @(posedge clk)
    r_rdy <= \$34 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$9 ) begin end
    \$31  = w_port__addr;
    if (\$4 ) begin
      \$31  = \$7 [2:0];
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$9 ) begin end
    \$32  = r_port__addr;
    if (\$10 ) begin
      \$32  = \$13 [2:0];
    end
    if (rst) begin
      \$32  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$9 ) begin end
    \$33  = inner_level;
    if (\$19 ) begin
      \$33  = \$20 [2:0];
    end
    if (\$26 ) begin
      \$33  = \$27 [2:0];
    end
    if (rst) begin
      \$33  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$9 ) begin end
    \$34  = r_rdy;
    if (\$30 ) begin
      \$34  = 1'h1;
    end else if (r_en) begin
      \$34  = 1'h0;
    end
    if (rst) begin
      \$34  = 1'h0;
    end
  end
  assign w_level = \$3 [2:0];
  assign level = \$3 [2:0];
  assign r_level = \$3 [2:0];
  assign produce = w_port__addr;
  assign w_port__data = { \port$312$0 , \port$686$0 , \port$684$0 , \port$682$0  };
  assign w_data = { \port$312$0 , \port$686$0 , \port$684$0 , \port$682$0  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule

module \top.level_3 (clk, rst, ready, key, last, \final , valid, merged_key, merged_final, merged_valid, merged_ready);
  reg \$auto$verilog_backend.cc:2505:dump_module$10  = 0;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output ready;
  wire ready;
  input [31:0] key;
  wire [31:0] key;
  input last;
  wire last;
  input \final ;
  wire \final ;
  input valid;
  wire valid;
  output [31:0] merged_key;
  reg [31:0] merged_key = 32'd0;
  output merged_final;
  reg merged_final = 1'h0;
  output merged_valid;
  reg merged_valid = 1'h0;
  input merged_ready;
  wire merged_ready;
  wire \$1 ;
  wire [1:0] \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire \$3 ;
  wire \$30 ;
  wire [31:0] \$31 ;
  wire \$32 ;
  wire \$33 ;
  wire \$34 ;
  wire \$35 ;
  wire \$36 ;
  wire [1:0] \$37 ;
  wire [1:0] \$38 ;
  wire \$39 ;
  wire \$4 ;
  reg \$40 ;
  reg [32:0] \$41 ;
  reg [1:0] \$42 ;
  reg [34:0] \$43 ;
  reg [31:0] \$44 ;
  reg \$45 ;
  reg \$46 ;
  reg [1:0] \$47 ;
  reg \$48 ;
  reg \$49 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [1:0] \$signal ;
  wire [1:0] \$signal$13 ;
  wire \$signal$19 ;
  wire \$signal$2 ;
  reg [1:0] \$signal$20  = 2'h0;
  wire \$signal$23 ;
  wire \$signal$25 ;
  wire \$signal$27 ;
  reg \$signal$5  = 1'h0;
  reg \final$37  = 1'h0;
  reg merged_last = 1'h0;
  wire [32:0] r_data;
  wire [34:0] \r_data$32 ;
  wire r_en;
  wire \r_en$18 ;
  wire r_rdy;
  wire \r_rdy$33 ;
  wire stays_alone;
  wire [32:0] w_data;
  wire [34:0] \w_data$16 ;
  wire w_en;
  wire \w_en$17 ;
  wire w_rdy;
  wire \w_rdy$15 ;
  reg [32:0] word_0 = 33'h000000000;
  reg [34:0] word_1 = 35'h000000000;
  reg [1:0] words = 2'h0;
  always @(posedge clk)
    \$signal$5  <= \$40 ;
  always @(posedge clk)
    word_0 <= \$41 ;
  always @(posedge clk)
    words <= \$42 ;
  always @(posedge clk)
    word_1 <= \$43 ;
  always @(posedge clk)
    merged_key <= \$44 ;
  always @(posedge clk)
    merged_last <= \$45 ;
  always @(posedge clk)
    merged_final <= \$46 ;
  always @(posedge clk)
    \$signal$20  <= \$47 ;
  always @(posedge clk)
    \final$37  <= \$48 ;
  always @(posedge clk)
    merged_valid <= \$49 ;
  assign ready = & \$signal ;
  assign \$signal$2  = valid & ready;
  assign \$1  = ~ \$signal$5 ;
  assign stays_alone = \$1  & \final ;
  assign \$2  = ! \$signal$5 ;
  assign w_en = \$signal$2  & \$4 ;
  assign \$5  = ~ words[0];
  assign r_en = \$signal$13 [0] | \$5 ;
  assign \$8  = \$6  | \$7 ;
  assign \w_en$17  = \$signal$2  & \$8 ;
  assign \$9  = ~ words[1];
  assign \r_en$18  = \$signal$13 [1] | \$9 ;
  assign \$10  = \$signal$20  | words;
  assign \$11  = & \$10 ;
  assign \$12  = ~ merged_valid;
  assign \$13  = merged_ready | \$12 ;
  assign \$signal$19  = \$11  & \$13 ;
  assign \$14  = ~ \$signal$20 [1];
  assign \$signal$23  = word_1[34] & \$14 ;
  assign \$15  = ~ \$signal$20 [0];
  assign \$16  = \$signal$20 [1] | \$signal$23 ;
  assign \$17  = word_0[31:0] > word_1[31:0];
  assign \$18  = \$16  | \$17 ;
  assign \$signal$25  = \$15  & \$18 ;
  assign \$19  = \$signal$20 [1] | \$signal$23 ;
  assign \$20  = word_0[32] & \$19 ;
  assign \$21  = word_1[32] & \$signal$20 [0];
  assign \$signal$27  = \$signal$25  ? \$20  : \$21 ;
  assign \$22  = \$signal$19  & \$signal$25 ;
  assign \$23  = ~ \$signal$25 ;
  assign \$24  = \$signal$23  & word_0[32];
  assign \$25  = \$23  | \$24 ;
  assign \$26  = \$signal$19  & \$25 ;
  assign \$27  = \$signal$2  & last;
  assign \$28  = ~ \$signal$5 ;
  assign \$29  = ~ \final ;
  assign \$30  = \$28  & \$29 ;
  assign \$31  = \$signal$25  ? word_0[31:0] : word_1[31:0];
  assign \$32  = \$signal$20 [1] ? \final$37  : word_1[33];
  assign \$33  = \$signal$27  & \$32 ;
  assign \$34  = \$signal$25  & word_0[32];
  assign \$35  = ~ \$signal$25 ;
  assign \$36  = \$35  & word_1[32];
  assign \$37  = \$signal$20  | { \$36 , \$34  };
  assign \$38  = \$signal$27  ? 2'h0 : \$37 ;
  assign \$39  = merged_ready | \$signal$19 ;
  \top.level_3.queue_0  queue_0 (
    .clk(clk),
    .\port$726$0 (key),
    .\port$728$0 (last),
    .r_data(r_data),
    .r_en(r_en),
    .r_rdy(r_rdy),
    .rst(rst),
    .w_en(w_en),
    .w_rdy(w_rdy)
  );
  \top.level_3.queue_1  queue_1 (
    .clk(clk),
    .\port$470$0 (stays_alone),
    .\port$726$0 (key),
    .\port$728$0 (last),
    .\port$730$0 (\final ),
    .r_data(\r_data$32 ),
    .r_en(\r_en$18 ),
    .r_rdy(\r_rdy$33 ),
    .rst(rst),
    .w_en(\w_en$17 ),
    .w_rdy(\w_rdy$15 )
  );
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$40  = \$signal$5 ;
    if (\$27 ) begin
      \$40  = \$30 ;
    end
    if (rst) begin
      \$40  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$41  = word_0;
    if (r_en) begin
      \$41  = r_data;
    end
    if (rst) begin
      \$41  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$42  = words;
    if (r_en) begin
      \$42 [0] = r_rdy;
    end
    if (\r_en$18 ) begin
      \$42 [1] = \r_rdy$33 ;
    end
    if (rst) begin
      \$42  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$43  = word_1;
    if (\r_en$18 ) begin
      \$43  = \r_data$32 ;
    end
    if (rst) begin
      \$43  = 35'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$44  = merged_key;
    if (\$signal$19 ) begin
      \$44  = \$31 ;
    end
    if (rst) begin
      \$44  = 32'd0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$45  = merged_last;
    if (\$signal$19 ) begin
      \$45  = \$signal$27 ;
    end
    if (rst) begin
      \$45  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$46  = merged_final;
    if (\$signal$19 ) begin
      \$46  = \$33 ;
    end
    if (rst) begin
      \$46  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$47  = \$signal$20 ;
    if (\$signal$19 ) begin
      \$47  = \$38 ;
    end
    if (rst) begin
      \$47  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$48  = \final$37 ;
    if (\$signal$13 [1]) begin
      \$48  = word_1[33];
    end
    if (rst) begin
      \$48  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$10 ) begin end
    \$49  = merged_valid;
    if (\$39 ) begin
      \$49  = \$signal$19 ;
    end
    if (rst) begin
      \$49  = 1'h0;
    end
  end
  assign w_data = { last, key };
  assign \w_data$16  = { stays_alone, \final , last, key };
  assign \$signal$13 [1] = \$26 ;
  assign \$signal$13 [0] = \$22 ;
  assign \$signal [1] = \w_rdy$15 ;
  assign \$signal [0] = w_rdy;
  assign \$3  = 1'h0;
  assign \$4  = \$2 ;
  assign \$6  = \$signal$5 ;
  assign \$7  = stays_alone;
endmodule

module \top.level_3.queue_0 (rst, w_en, r_en, w_rdy, r_data, \port$726$0 , \port$728$0 , r_rdy, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$11  = 0;
  input rst;
  wire rst;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [32:0] r_data;
  wire [32:0] r_data;
  input [31:0] \port$726$0 ;
  wire [31:0] \port$726$0 ;
  input \port$728$0 ;
  wire \port$728$0 ;
  output r_rdy;
  reg r_rdy = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire [4:0] \$12 ;
  wire [4:0] \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire [4:0] \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire [4:0] \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire [4:0] \$3 ;
  wire \$30 ;
  reg [3:0] \$31 ;
  reg [3:0] \$32 ;
  reg [3:0] \$33 ;
  reg \$34 ;
  wire \$4 ;
  wire \$5 ;
  wire [4:0] \$6 ;
  wire [4:0] \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [3:0] consume;
  reg [3:0] inner_level = 4'h0;
  wire inner_r_rdy;
  wire [3:0] level;
  wire [3:0] produce;
  wire [3:0] r_level;
  reg [3:0] r_port__addr = 4'h0;
  wire [32:0] r_port__data;
  wire r_port__en;
  wire [32:0] w_data;
  wire [3:0] w_level;
  reg [3:0] w_port__addr = 4'h0;
  wire [32:0] w_port__data;
  wire w_port__en;
  reg [32:0] storage [9:0];
  initial begin
    storage[0] = 33'h000000000;
    storage[1] = 33'h000000000;
    storage[2] = 33'h000000000;
    storage[3] = 33'h000000000;
    storage[4] = 33'h000000000;
    storage[5] = 33'h000000000;
    storage[6] = 33'h000000000;
    storage[7] = 33'h000000000;
    storage[8] = 33'h000000000;
    storage[9] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { \port$728$0 , \port$726$0  };
  end
  reg [32:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 4'ha;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign \$3  = inner_level + r_rdy;
  assign \$4  = w_rdy & w_en;
  assign \$5  = w_port__addr == 4'h9;
  assign \$6  = w_port__addr + 1'h1;
  assign \$7  = \$5  ? 5'h00 : \$6 ;
  assign \$8  = ~ r_rdy;
  assign \$9  = \$8  | r_en;
  assign \$10  = inner_r_rdy & \$9 ;
  assign \$11  = r_port__addr == 4'h9;
  assign \$12  = r_port__addr + 1'h1;
  assign \$13  = \$11  ? 5'h00 : \$12 ;
  assign \$14  = w_rdy & w_en;
  assign \$15  = ~ r_rdy;
  assign \$16  = \$15  | r_en;
  assign \$17  = inner_r_rdy & \$16 ;
  assign \$18  = ~ \$17 ;
  assign \$19  = \$14  & \$18 ;
  assign \$20  = inner_level + 1'h1;
  assign \$21  = ~ r_rdy;
  assign \$22  = \$21  | r_en;
  assign \$23  = inner_r_rdy & \$22 ;
  assign \$24  = w_rdy & w_en;
  assign \$25  = ~ \$24 ;
  assign \$26  = \$23  & \$25 ;
  assign \$27  = inner_level - 1'h1;
  assign \$28  = ~ r_rdy;
  assign \$29  = \$28  | r_en;
  assign \$30  = inner_r_rdy & \$29 ;
  always @(posedge clk)
    w_port__addr <= \$31 ;
  always @(posedge clk)
    r_port__addr <= \$32 ;
  always @(posedge clk)
    inner_level <= \$33 ;
  always @(posedge clk)
    r_rdy <= \$34 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$11 ) begin end
    \$31  = w_port__addr;
    if (\$4 ) begin
      \$31  = \$7 [3:0];
    end
    if (rst) begin
      \$31  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$11 ) begin end
    \$32  = r_port__addr;
    if (\$10 ) begin
      \$32  = \$13 [3:0];
    end
    if (rst) begin
      \$32  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$11 ) begin end
    \$33  = inner_level;
    if (\$19 ) begin
      \$33  = \$20 [3:0];
    end
    if (\$26 ) begin
      \$33  = \$27 [3:0];
    end
    if (rst) begin
      \$33  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$11 ) begin end
    \$34  = r_rdy;
    if (\$30 ) begin
      \$34  = 1'h1;
    end else if (r_en) begin
      \$34  = 1'h0;
    end
    if (rst) begin
      \$34  = 1'h0;
    end
  end
  assign w_level = \$3 [3:0];
  assign level = \$3 [3:0];
  assign r_level = \$3 [3:0];
  assign produce = w_port__addr;
  assign w_port__data = { \port$728$0 , \port$726$0  };
  assign w_data = { \port$728$0 , \port$726$0  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule

module \top.level_3.queue_1 (rst, \port$470$0 , w_en, r_en, w_rdy, r_data, \port$726$0 , \port$728$0 , \port$730$0 , r_rdy, clk);
  reg \$auto$verilog_backend.cc:2505:dump_module$12  = 0;
  input rst;
  wire rst;
  input \port$470$0 ;
  wire \port$470$0 ;
  input w_en;
  wire w_en;
  input r_en;
  wire r_en;
  output w_rdy;
  wire w_rdy;
  output [34:0] r_data;
  wire [34:0] r_data;
  input [31:0] \port$726$0 ;
  wire [31:0] \port$726$0 ;
  input \port$728$0 ;
  wire \port$728$0 ;
  input \port$730$0 ;
  wire \port$730$0 ;
  output r_rdy;
  reg r_rdy = 1'h0;
  input clk;
  wire clk;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire [4:0] \$12 ;
  wire [4:0] \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire \$19 ;
  wire \$2 ;
  wire [4:0] \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire [4:0] \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire [4:0] \$3 ;
  wire \$30 ;
  reg [3:0] \$31 ;
  reg [3:0] \$32 ;
  reg [3:0] \$33 ;
  reg \$34 ;
  wire \$4 ;
  wire \$5 ;
  wire [4:0] \$6 ;
  wire [4:0] \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [3:0] consume;
  reg [3:0] inner_level = 4'h0;
  wire inner_r_rdy;
  wire [3:0] level;
  wire [3:0] produce;
  wire [3:0] r_level;
  reg [3:0] r_port__addr = 4'h0;
  wire [34:0] r_port__data;
  wire r_port__en;
  wire [34:0] w_data;
  wire [3:0] w_level;
  reg [3:0] w_port__addr = 4'h0;
  wire [34:0] w_port__data;
  wire w_port__en;
  reg [34:0] storage [9:0];
  initial begin
    storage[0] = 35'h000000000;
    storage[1] = 35'h000000000;
    storage[2] = 35'h000000000;
    storage[3] = 35'h000000000;
    storage[4] = 35'h000000000;
    storage[5] = 35'h000000000;
    storage[6] = 35'h000000000;
    storage[7] = 35'h000000000;
    storage[8] = 35'h000000000;
    storage[9] = 35'h000000000;
  end
  always @(posedge clk) begin
    if (w_port__en)
      storage[w_port__addr] <= { \port$470$0 , \port$730$0 , \port$728$0 , \port$726$0  };
  end
  reg [34:0] _0_;
  always @(posedge clk) begin
    if (r_port__en) begin
      _0_ <= storage[r_port__addr];
    end
  end
  assign r_data = _0_;
  assign w_rdy = inner_level != 4'ha;
  assign inner_r_rdy = | inner_level;
  assign w_port__en = w_rdy & w_en;
  assign \$1  = ~ r_rdy;
  assign \$2  = \$1  | r_en;
  assign r_port__en = inner_r_rdy & \$2 ;
  assign \$3  = inner_level + r_rdy;
  assign \$4  = w_rdy & w_en;
  assign \$5  = w_port__addr == 4'h9;
  assign \$6  = w_port__addr + 1'h1;
  assign \$7  = \$5  ? 5'h00 : \$6 ;
  assign \$8  = ~ r_rdy;
  assign \$9  = \$8  | r_en;
  assign \$10  = inner_r_rdy & \$9 ;
  assign \$11  = r_port__addr == 4'h9;
  assign \$12  = r_port__addr + 1'h1;
  assign \$13  = \$11  ? 5'h00 : \$12 ;
  assign \$14  = w_rdy & w_en;
  assign \$15  = ~ r_rdy;
  assign \$16  = \$15  | r_en;
  assign \$17  = inner_r_rdy & \$16 ;
  assign \$18  = ~ \$17 ;
  assign \$19  = \$14  & \$18 ;
  assign \$20  = inner_level + 1'h1;
  assign \$21  = ~ r_rdy;
  assign \$22  = \$21  | r_en;
  assign \$23  = inner_r_rdy & \$22 ;
  assign \$24  = w_rdy & w_en;
  assign \$25  = ~ \$24 ;
  assign \$26  = \$23  & \$25 ;
  assign \$27  = inner_level - 1'h1;
  assign \$28  = ~ r_rdy;
  assign \$29  = \$28  | r_en;
  assign \$30  = inner_r_rdy & \$29 ;
  always @(posedge clk)
    w_port__addr <= \$31 ;
  always @(posedge clk)
    r_port__addr <= \$32 ;
  always @(posedge clk)
    inner_level <= \$33 ;
  always @(posedge clk)
    r_rdy <= \$34 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$12 ) begin end
    \$31  = w_port__addr;
    if (\$4 ) begin
      \$31  = \$7 [3:0];
    end
    if (rst) begin
      \$31  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$12 ) begin end
    \$32  = r_port__addr;
    if (\$10 ) begin
      \$32  = \$13 [3:0];
    end
    if (rst) begin
      \$32  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$12 ) begin end
    \$33  = inner_level;
    if (\$19 ) begin
      \$33  = \$20 [3:0];
    end
    if (\$26 ) begin
      \$33  = \$27 [3:0];
    end
    if (rst) begin
      \$33  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$12 ) begin end
    \$34  = r_rdy;
    if (\$30 ) begin
      \$34  = 1'h1;
    end else if (r_en) begin
      \$34  = 1'h0;
    end
    if (rst) begin
      \$34  = 1'h0;
    end
  end
  assign w_level = \$3 [3:0];
  assign level = \$3 [3:0];
  assign r_level = \$3 [3:0];
  assign produce = w_port__addr;
  assign w_port__data = { \port$470$0 , \port$730$0 , \port$728$0 , \port$726$0  };
  assign w_data = { \port$470$0 , \port$730$0 , \port$728$0 , \port$726$0  };
  assign consume = r_port__addr;
  assign r_port__data = r_data;
endmodule
