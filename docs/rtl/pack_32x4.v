module pack_32x4(proceed, batch, computing, ready, clk, rst, fetch, address, valid, sent, done, error, more, start);
  reg \$auto$verilog_backend.cc:2505:dump_module$1  = 0;
  input proceed;
  wire proceed;
  input [5:0] batch;
  wire [5:0] batch;
  input [31:0] computing;
  wire [31:0] computing;
  input [3:0] ready;
  wire [3:0] ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output fetch;
  wire fetch;
  output [10:0] address;
  wire [10:0] address;
  output [3:0] valid;
  wire [3:0] valid;
  output [4:0] sent;
  wire [4:0] sent;
  output done;
  wire done;
  output error;
  reg error = 1'h0;
  output more;
  wire more;
  input start;
  wire start;
  wire [5:0] \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire [3:0] \$13 ;
  wire \$14 ;
  wire [3:0] \$15 ;
  wire \$16 ;
  wire [5:0] \$17 ;
  wire [6:0] \$18 ;
  wire \$19 ;
  wire \$2 ;
  reg \$20 ;
  reg \$21 ;
  reg [31:0] \$22 ;
  reg [2:0] \$23 ;
  reg [1:0] \$24 ;
  reg [4:0] \$25 ;
  wire \$3 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire \$signal ;
  reg [31:0] \$signal$22  = 32'd0;
  wire [4:0] \$signal$29 ;
  wire [4:0] \$signal$35 ;
  reg [4:0] \$signature__addr  = 5'h00;
  wire [1:0] \$signature__data ;
  reg \$signature__en ;
  wire [10:0] \address$25 ;
  reg \begin  = 1'h0;
  wire [31:0] bits;
  reg clear;
  wire computes;
  wire [1:0] core;
  wire [1:0] \core$37 ;
  wire [5:0] count;
  wire [5:0] \count$20 ;
  wire \done$30 ;
  wire \fetch$24 ;
  reg [1:0] fsm_state = 2'h0;
  wire latch;
  wire [4:0] read__addr;
  wire [1:0] read__data;
  wire [3:0] \ready$27 ;
  wire [4:0] \sent$28 ;
  wire [4:0] \sequence ;
  wire [5:0] sequences;
  reg take;
  wire [3:0] \valid$26 ;
  reg [2:0] \wait  = 3'h0;
  wire written;
  reg [1:0] mapping [31:0];
  initial begin
    mapping[0] = 2'h0;
    mapping[1] = 2'h0;
    mapping[2] = 2'h0;
    mapping[3] = 2'h0;
    mapping[4] = 2'h0;
    mapping[5] = 2'h0;
    mapping[6] = 2'h0;
    mapping[7] = 2'h0;
    mapping[8] = 2'h0;
    mapping[9] = 2'h0;
    mapping[10] = 2'h0;
    mapping[11] = 2'h0;
    mapping[12] = 2'h0;
    mapping[13] = 2'h0;
    mapping[14] = 2'h0;
    mapping[15] = 2'h0;
    mapping[16] = 2'h0;
    mapping[17] = 2'h0;
    mapping[18] = 2'h0;
    mapping[19] = 2'h0;
    mapping[20] = 2'h0;
    mapping[21] = 2'h0;
    mapping[22] = 2'h0;
    mapping[23] = 2'h0;
    mapping[24] = 2'h0;
    mapping[25] = 2'h0;
    mapping[26] = 2'h0;
    mapping[27] = 2'h0;
    mapping[28] = 2'h0;
    mapping[29] = 2'h0;
    mapping[30] = 2'h0;
    mapping[31] = 2'h0;
  end
  always @(posedge clk) begin
    if (\$signature__en )
      mapping[\$signature__addr ] <= \$signature__data ;
  end
  assign core = mapping[\sequence ];
  assign computes = \$signal$22  >> \sequence ;
  assign \$1  = \sent$28  + 1'h0;
  assign done = \done$30  | error;
  assign \$2  = ! \wait ;
  assign \$3  = ! \wait ;
  assign \$4  = \$signal$22  >> \$signature__addr ;
  assign \$5  = ! fsm_state;
  assign \$6  = fsm_state == 1'h1;
  assign \$7  = fsm_state == 2'h2;
  assign \$8  = fsm_state == 2'h3;
  assign \$9  = ! batch;
  assign \$10  = batch > 6'h20;
  assign \$11  = \$9  | \$10 ;
  assign \$12  = start & \$11 ;
  assign \$13  = \wait  - 1'h1;
  assign \$14  = ! \wait ;
  assign \$15  = \wait  - 1'h1;
  assign \$16  = ! \wait ;
  assign \$17  = \$signature__addr  + 1'h1;
  assign \$18  = batch - 1'h1;
  assign \$19  = \$signature__addr  == \$18 ;
  always @(posedge clk)
    \begin  <= \$20 ;
  always @(posedge clk)
    error <= \$21 ;
  always @(posedge clk)
    \$signal$22  <= \$22 ;
  always @(posedge clk)
    \wait  <= \$23 ;
  always @(posedge clk)
    fsm_state <= \$24 ;
  always @(posedge clk)
    \$signature__addr  <= \$25 ;
  \top.checker  \checker  (
    .address(address),
    .\begin (\begin ),
    .clk(clk),
    .computes(computes),
    .core(core),
    .count(batch),
    .done(\done$30 ),
    .fetch(fetch),
    .ready(ready),
    .rst(rst),
    .sent(\sent$28 ),
    .\sequence (\sequence ),
    .valid(valid)
  );
  \top.rule  rule (
    .clear(clear),
    .clk(clk),
    .core(\$signature__data ),
    .rst(rst),
    .sequences(batch),
    .take(take)
  );
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    clear = 1'h0;
    casez (fsm_state)
      2'h0:
          /* empty */;
      2'h1:
          if (\$2 ) begin
            clear = 1'h1;
          end
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en  = 1'h0;
    casez (fsm_state)
      2'h0:
          /* empty */;
      2'h1:
          /* empty */;
      2'h2:
          if (\$3 ) begin
            \$signature__en  = 1'h1;
          end
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    take = 1'h0;
    casez (fsm_state)
      2'h0:
          /* empty */;
      2'h1:
          /* empty */;
      2'h2:
          if (\$3 ) begin
            take = \$4 ;
          end
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$20  = 1'h0;
    casez (fsm_state)
      2'h0:
          /* empty */;
      2'h1:
          /* empty */;
      2'h2:
          if (\$16 ) begin
            if (\$19 ) begin
              \$20  = 1'h1;
            end
          end
    endcase
    if (rst) begin
      \$20  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$21  = 1'h0;
    casez (fsm_state)
      2'h0:
          if (\$12 ) begin
            \$21  = 1'h1;
          end
    endcase
    if (rst) begin
      \$21  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$22  = \$signal$22 ;
    if (clear) begin
      \$22  = computing;
    end
    if (rst) begin
      \$22  = 32'd0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$23  = \wait ;
    casez (fsm_state)
      2'h0:
          if (\$12 ) begin
          end else if (start) begin
            \$23  = 3'h6;
          end
      2'h1:
        begin
          \$23  = \$13 [2:0];
          if (\$14 ) begin
            \$23  = 3'h0;
          end
        end
      2'h2:
        begin
          \$23  = \$15 [2:0];
          if (\$16 ) begin
            \$23  = 3'h0;
          end
        end
    endcase
    if (rst) begin
      \$23  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$24  = fsm_state;
    casez (fsm_state)
      2'h0:
          if (\$12 ) begin
          end else if (start) begin
            \$24  = 2'h1;
          end
      2'h1:
          if (\$14 ) begin
            \$24  = 2'h2;
          end
      2'h2:
          if (\$16 ) begin
            if (\$19 ) begin
              \$24  = 2'h3;
            end
          end
      2'h3:
          if (\done$30 ) begin
            \$24  = 2'h0;
          end
    endcase
    if (rst) begin
      \$24  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$25  = \$signature__addr ;
    casez (fsm_state)
      2'h0:
          /* empty */;
      2'h1:
          /* empty */;
      2'h2:
          if (\$16 ) begin
            \$25  = \$17 [4:0];
            if (\$19 ) begin
              \$25  = 5'h00;
            end
          end
    endcase
    if (rst) begin
      \$25  = 5'h00;
    end
  end
  assign \$signal  = start;
  assign bits = computing;
  assign count = batch;
  assign sequences = batch;
  assign latch = clear;
  assign \count$20  = batch;
  assign \fetch$24  = fetch;
  assign \address$25  = address;
  assign \valid$26  = valid;
  assign \ready$27  = ready;
  assign \$signal$29  = 5'h00;
  assign read__addr = \sequence ;
  assign read__data = core;
  assign \$signal$35  = \$signature__addr ;
  assign \core$37  = \$signature__data ;
  assign written = \$signature__en ;
  assign sent = \$1 [4:0];
  assign more = 1'h0;
endmodule

module \top.checker (ready, clk, rst, computes, fetch, done, core, \begin , valid, sent, address, \sequence , count);
  reg \$auto$verilog_backend.cc:2505:dump_module$2  = 0;
  input [3:0] ready;
  wire [3:0] ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  input [1:0] core;
  wire [1:0] core;
  input \begin ;
  wire \begin ;
  output [3:0] valid;
  reg [3:0] valid = 4'h0;
  output [4:0] sent;
  reg [4:0] sent = 5'h00;
  output [10:0] address;
  reg [10:0] address = 11'h000;
  output [4:0] \sequence ;
  reg [4:0] \sequence  = 5'h00;
  input [5:0] count;
  wire [5:0] count;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire [3:0] \$20 ;
  wire [11:0] \$21 ;
  wire [6:0] \$22 ;
  wire [5:0] \$23 ;
  reg [3:0] \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [4:0] \$28 ;
  reg [10:0] \$29 ;
  wire [3:0] \$3 ;
  reg [5:0] \$30 ;
  reg [4:0] \$31 ;
  wire [3:0] \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [6:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$signal$4  = | \$4 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$20  = computes << core;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 4'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 5'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [10:0];
    end
    if (\$signal$11 ) begin
      \$29  = 11'h000;
    end
    if (rst) begin
      \$29  = 11'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [4:0];
    end
    if (\$signal$11 ) begin
      \$31  = 5'h00;
    end
    if (rst) begin
      \$31  = 5'h00;
    end
  end
  assign fetch = \$signal$7 ;
endmodule

module \top.rule (clk, rst, clear, take, core, sequences);
  reg \$auto$verilog_backend.cc:2505:dump_module$3  = 0;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input clear;
  wire clear;
  input take;
  wire take;
  output [1:0] core;
  reg [1:0] core = 2'h0;
  input [5:0] sequences;
  wire [5:0] sequences;
  reg [2:0] \$1 ;
  wire \$2 ;
  wire [2:0] \$3 ;
  wire [5:0] \$4 ;
  reg [1:0] \$5 ;
  reg [4:0] \$6 ;
  wire [4:0] last;
  reg [4:0] slot = 5'h00;
  assign \$4  = slot + 1'h1;
  always @(posedge clk)
    core <= \$5 ;
  always @(posedge clk)
    slot <= \$6 ;
  assign \$2  = slot == \$1 ;
  assign \$3  = core + 1'h1;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$5  = core;
    if (clear) begin
      \$5  = 2'h0;
    end else if (take) begin
      if (\$2 ) begin
        \$5  = \$3 [1:0];
      end
    end
    if (rst) begin
      \$5  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$6  = slot;
    if (clear) begin
      \$6  = 5'h00;
    end else if (take) begin
      if (\$2 ) begin
        \$6  = 5'h00;
      end else begin
        \$6  = \$4 [4:0];
      end
    end
    if (rst) begin
      \$6  = 5'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$1  = 3'h0;
    casez (sequences)
      6'h00:
          \$1  = 3'h0;
      6'h01:
          \$1  = 3'h0;
      6'h02:
          \$1  = 3'h0;
      6'h03:
          \$1  = 3'h0;
      6'h04:
          \$1  = 3'h0;
      6'h05:
          \$1  = 3'h1;
      6'h06:
          \$1  = 3'h1;
      6'h07:
          \$1  = 3'h1;
      6'h08:
          \$1  = 3'h1;
      6'h09:
          \$1  = 3'h2;
      6'h0a:
          \$1  = 3'h2;
      6'h0b:
          \$1  = 3'h2;
      6'h0c:
          \$1  = 3'h2;
      6'h0d:
          \$1  = 3'h3;
      6'h0e:
          \$1  = 3'h3;
      6'h0f:
          \$1  = 3'h3;
      6'h10:
          \$1  = 3'h3;
      6'h11:
          \$1  = 3'h4;
      6'h12:
          \$1  = 3'h4;
      6'h13:
          \$1  = 3'h4;
      6'h14:
          \$1  = 3'h4;
      6'h15:
          \$1  = 3'h5;
      6'h16:
          \$1  = 3'h5;
      6'h17:
          \$1  = 3'h5;
      6'h18:
          \$1  = 3'h5;
      6'h19:
          \$1  = 3'h6;
      6'h1a:
          \$1  = 3'h6;
      6'h1b:
          \$1  = 3'h6;
      6'h1c:
          \$1  = 3'h6;
      6'h1d:
          \$1  = 3'h7;
      6'h1e:
          \$1  = 3'h7;
      6'h1f:
          \$1  = 3'h7;
      6'h20:
          \$1  = 3'h7;
    endcase
  end
  assign last = { 2'h0, \$1  };
endmodule
